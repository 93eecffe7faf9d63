package rotanats

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
)

func (s *store) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	if _, err := s.open(ctx); err != nil {
		return 0, err
	}
	rev, err := s.write(ctx, key, value, prev, nil)
	// The caller expects no key. A deleted key is at the revision of its mark, and at
	// none once the mark has expired. It may expire between the read and the write, so
	// this retries, but not for ever.
	at := prev // of the last try
	for range 3 {
		if prev != 0 || !errors.Is(err, rota.ErrConflict) {
			break
		}
		mark, lerr := s.read(ctx, key)
		switch {
		case errors.Is(lerr, rota.ErrNotFound):
			mark.Deleted = true
		case lerr != nil:
			return 0, lerr
		}
		if !mark.Deleted {
			break
		}
		// Another mark means that there was a key since the last try. It may have been the
		// value of this call, if a former leader refused what its successor accepted, and
		// it must not be there twice.
		if at != 0 && mark.Rev != 0 && mark.Rev != at {
			break
		}
		at = mark.Rev
		rev, err = s.write(ctx, key, value, at, nil)
	}
	return rev, err
}

func (s *store) Delete(ctx context.Context, key string, prev rota.Rev) error {
	if err := checkKey(key); err != nil {
		return err
	}
	b, err := s.open(ctx)
	if err != nil {
		return err
	}
	if prev == 0 {
		return rota.ErrConflict // no key is at revision 0
	}
	h := nats.Header{headerOperation: {"DEL"}}
	if b.marks {
		h.Set(headerTTL, markTime.String())
	}
	_, err = s.write(ctx, key, nil, prev, h)
	return err
}

// write is one compare-and-set. It may send the write several times, always at the same
// revision and with the same ID: at most one of them can succeed.
//
// A refusal of a replicated stream is not always the last word. A leader that was deposed
// and has not noticed refuses what its successor accepts, and both answer. If it names an
// older revision than prev, it has an old copy. If it names a newer one, it is the last word:
// a server that has that one would know by its ID a write that was accepted before, and
// acknowledge it again. Besides, a leader refuses a write that comes too soon: the write
// before it is applied and acknowledged, but still listed as in flight; on a leader that was
// deposed it may stay so. Then a read tells, or the next refusal. Nor is a refusal the last word
// after an attempt without an answer: that may have been accepted, and replaced since, and a
// server that was started meanwhile knows the IDs of what it still has.
func (s *store) write(ctx context.Context, key string, value []byte, prev rota.Rev, h nats.Header) (rota.Rev, error) {
	id, doubt, unheard, seen := rand.Text(), false, false, s.newest.get(key) >= prev
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		rev, again, err := s.writeUntilAnswered(ctx, key, value, prev, id, h)
		unheard = unheard || again
		var no *mismatch
		if !errors.As(err, &no) {
			if err == nil {
				s.see(key, rev)
			}
			return rev, err
		}
		if !no.inFlight && !unheard && (no.at >= prev || !s.replicated()) {
			return 0, rota.ErrConflict
		}
		doubt = doubt || !no.inFlight
		now, err := s.read(ctx, key)
		switch {
		case err != nil && !errors.Is(err, rota.ErrNotFound):
			return 0, err
		case now.write == id:
			return now.Rev, nil
		case now.Rev == prev: // it was not replaced, so the write may be sent again
		case now.over == strconv.FormatUint(uint64(prev), 10): // another write has replaced it
			return 0, rota.ErrConflict
		case !doubt: // this write or another has replaced it: the leader knows, once nothing is in flight
		case now.Rev < prev && !seen: // there never was such a revision
			return 0, rota.ErrConflict
		default:
			return 0, fmt.Errorf("write %s over %d: %w; now it is at %d", key, prev, errDeposed, now.Rev)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, s.explain(ctx.Err())
		}
	}
}

// writeUntilAnswered sends a write, and in a cluster sends it again if there is no answer: what
// reaches a server that no longer leads the bucket, or is about to, is lost. again tells whether
// it did.
func (s *store) writeUntilAnswered(ctx context.Context, key string, value []byte, prev rota.Rev, id string, h nats.Header) (rev rota.Rev, again bool, err error) {
	if !s.replicated() {
		rev, err = s.writeOnce(ctx, key, value, prev, id, h)
		return rev, false, err
	}
	ctx, cancel := within(ctx)
	defer cancel()
	for wait := replyTimeout; ; wait = longer(wait, replyTimeout) {
		once, cancel := context.WithTimeout(ctx, wait)
		rev, err = s.writeOnce(once, key, value, prev, id, h)
		cancel()
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return rev, again, err
		}
		again = true
	}
}

// errDeposed means that the outcome of a write is unknown: it may have happened and been
// replaced since.
var errDeposed = errors.New("a server has refused it, and another may have accepted it before")

// A mismatch is a refused write: the key is at another revision, or a write is in flight, maybe
// this one.
type mismatch struct {
	at       rota.Rev // the revision that the server has; 0 for none, or if it does not say
	inFlight bool
}

func (m *mismatch) Error() string {
	if m.inFlight {
		return "rotanats: another write of the key is in flight"
	}
	return fmt.Sprintf("rotanats: the key is at revision %d", m.at)
}

// readMismatch reads an error of JetStream, and returns nil if it is not about revisions.
func readMismatch(err error) *mismatch {
	switch code(err) {
	case codeWrongInFlight, codeSameInFlight:
		return &mismatch{inFlight: true}
	case codeWrongSequence:
		_, number, _ := strings.Cut(err.Error(), "wrong last sequence: ")
		at, perr := strconv.ParseUint(number, 10, 64)
		if perr != nil {
			at = 0
		}
		return &mismatch{at: rota.Rev(at)}
	}
	return nil
}

// writeOnce sends a write once. A mismatch means that the server which answered has not
// accepted it.
func (s *store) writeOnce(ctx context.Context, key string, value []byte, prev rota.Rev, id string, h nats.Header) (rota.Rev, error) {
	subject := s.subject(key)
	msg := nats.NewMsg(s.set.Route() + subject)
	msg.Data = value
	if h != nil {
		msg.Header = h
	}
	msg.Header.Set(headerExpected, strconv.FormatUint(uint64(prev), 10))
	msg.Header.Set(headerWrite, id)
	if s.replicated() {
		msg.Header.Set(nats.MsgIdHdr, id) // a write that was accepted is not refused when it is sent again
	}
	if key := s.sealing(); key != nil {
		msg.Header.Set(headerSeal, seal(key, subject, msg.Header.Get(headerOperation), value))
	}
	r, err := s.request(ctx, msg)
	if errors.Is(err, nats.ErrNoResponders) {
		s.forget() // the stream is gone, or has no leader
	}
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", key, s.withDisk(err))
	}
	var ack struct {
		answer
		Stream string `json:"stream"`
		Seq    uint64 `json:"seq"`
	}
	if err := json.Unmarshal(r.Data, &ack); err != nil {
		return 0, fmt.Errorf("write %s: the answer: %w", key, err)
	}
	if no := readMismatch(ack.err()); no != nil {
		return 0, no
	}
	if err := ack.err(); err != nil {
		return 0, fmt.Errorf("write %s: %w", key, err)
	}
	if ack.Stream != s.stream() || ack.Seq == 0 {
		return 0, fmt.Errorf("write %s: stream %q acknowledged it at %d, want %s", key, ack.Stream, ack.Seq, s.stream())
	}
	return rota.Rev(ack.Seq), nil
}
