package rotanats

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
)

// Headers of a dead letter. A message that is dead-lettered loses headers of its own
// that begin with Rota- or Nats-, so that nobody takes them for these.
const (
	headerGroup    = "Rota-Group"
	headerStream   = "Rota-Stream"
	headerOf       = "Rota-Partition"
	headerPosition = "Rota-Sequence"
	headerMessage  = "Rota-Message"      // its ID
	headerSent     = "Rota-Message-Time" // when it was published
	headerReason   = "Rota-Error"
	headerAttempts = "Rota-Attempts"
	headerTime     = "Rota-Time" // when it became a dead letter
	headerFormer   = "Rota-Former"
)

// storeLetter publishes a letter to the dead-letter subject, under an ID that makes
// retries idempotent. If it is too large with its headers, it goes without those of the
// message, and then without any: the message matters more than its history.
func (s *source) storeLetter(ctx context.Context, may func() error, id string, l *rota.Letter) error {
	msg := l.Message
	dead := nats.NewMsg(s.set.Dead + "." + msg.Partition)
	dead.Data = msg.Value
	own := nats.Header{}
	for k, v := range map[string]string{
		nats.MsgIdHdr: id, headerGroup: l.Group, headerStream: s.set.Stream, headerOf: msg.Partition, headerPosition: strconv.FormatUint(msg.Position, 10),
		headerMessage: oneLine(msg.ID), headerSent: msg.Time.UTC().Format(time.RFC3339Nano), headerReason: oneLine(l.Reason),
		headerAttempts: strconv.Itoa(msg.Attempt), headerTime: l.Time.UTC().Format(time.RFC3339Nano), headerFormer: l.Former,
	} {
		if v != "" {
			own.Set(k, v)
			dead.Header.Set(k, v)
		}
	}
	for _, h := range msg.Headers {
		if !reserved(h.Key) {
			dead.Header.Add(h.Key, string(h.Value))
		}
	}
	err := s.publishDead(ctx, may, dead)
	for _, less := range []nats.Header{own, {nats.MsgIdHdr: {id}}, nil} {
		if !errors.Is(err, nats.ErrMaxPayload) {
			break
		}
		dead.Header = less
		err = s.publishDead(ctx, may, dead)
	}
	if err != nil {
		return fmt.Errorf("%w: message %d of %s to %s: %w", errDeadLetter, msg.Position, msg.Partition, dead.Subject, err)
	}
	return nil
}

// errDeadLetter means that a message which failed too often could not be stored as a
// dead letter. It stays unsettled, and the messages after it wait.
var errDeadLetter = errors.New("rotanats: cannot dead-letter")

// reserved tells whether a header is not the message's own: an instruction from the
// publisher to the server, of which new versions of the server bring new ones, or one of
// a dead letter.
func reserved(header string) bool {
	for _, prefix := range []string{"nats-", "rota-"} {
		if len(header) >= len(prefix) && strings.EqualFold(header[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// publishDead publishes a dead letter and retries until a stream has stored it. If no
// stream covers the subject, it creates one; in a cluster a new stream may lose the
// first messages. A retry is safe here, since the server drops a second message with
// the same Nats-Msg-Id. may is asked before each attempt: the process may have been
// stopped by a signal since the last.
func (s *source) publishDead(ctx context.Context, may func() error, msg *nats.Msg) error {
	for tries := 1; ; tries++ {
		if err := may(); err != nil {
			return err
		}
		once, cancel := context.WithTimeout(ctx, time.Second)
		err := s.publish(once, msg)
		if errors.Is(err, nats.ErrNoResponders) {
			err = s.findDeadStream(once, msg.Subject, err)
		}
		cancel()
		if err == nil || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, errNotCovered) || refusedBy(err) || ctx.Err() != nil || tries == 5 {
			return err
		}
		select {
		case <-time.After(time.Duration(tries) * 20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// errNotCovered means that no stream stores what is published to the dead-letter subject.
var errNotCovered = errors.New("no stream stores that subject")

// findDeadStream creates the stream for dead letters after nobody has answered to a
// publication, unless there is one. If that one has other subjects, waiting will not help.
func (s *source) findDeadStream(ctx context.Context, subject string, because error) error {
	var info streamInfo
	if err := s.find(ctx, s.deadStream(), s.config(s.deadStream(), s.set.Dead+".>"), &info); err != nil {
		return errors.Join(because, err)
	}
	if !slices.ContainsFunc(info.Config.Subjects, func(f string) bool { return address.Matches(f, subject) }) {
		return fmt.Errorf("%w, and stream %s has the subjects %.200q: add %s.> to them, or to another stream", errNotCovered, s.deadStream(), info.Config.Subjects, s.set.Dead)
	}
	return because
}

// oneLine makes a text fit into a header.
func oneLine(s string) string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	return strings.ToValidUTF8(text[:min(len(text), 500)], "")
}

// deadStream is the stream that we create for dead letters.
func (s *source) deadStream() string { return s.set.Stream + "_dead" }

// storedMessage is JetStream's answer to STREAM.MSG.GET.
type storedMessage struct {
	answer
	Message struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Hdrs    []byte    `json:"hdrs"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
}

// Letters reads the dead letters one by one, oldest first.
func (s *source) Letters(ctx context.Context, partition string) iter.Seq2[rota.Letter, error] {
	filter := s.set.Dead + ".>"
	if partition != "" {
		filter = s.set.Dead + "." + partition
	}
	return func(yield func(rota.Letter, error) bool) {
		stream, err := s.letterStream(ctx)
		for next := uint64(1); err == nil && stream != ""; {
			var got storedMessage
			err = s.ask(ctx, "STREAM.MSG.GET."+stream, map[string]any{"seq": next, "next_by_subj": filter}, &got)
			if code(err) == codeNoMessage || code(err) == codeNoStream {
				return
			}
			if err == nil && !yield(s.readLetter(&got), nil) {
				return
			}
			next = got.Message.Seq + 1
		}
		if err != nil {
			yield(rota.Letter{}, fmt.Errorf("rotanats: dead letters of %s: %w", s.set.Stream, err))
		}
	}
}

// letterStream is the stream that stores the dead letters: ours, or one that somebody
// made for their subject. It is empty if there is none.
func (s *source) letterStream(ctx context.Context) (string, error) {
	if s.bad != nil {
		return "", s.bad
	}
	var info streamInfo
	err := s.ask(ctx, "STREAM.INFO."+s.deadStream(), nil, &info)
	if code(err) != codeNoStream {
		return s.deadStream(), err
	}
	var names struct {
		answer
		Streams []string `json:"streams"`
	}
	err = s.ask(ctx, "STREAM.NAMES", map[string]string{"subject": s.set.Dead + ".>"}, &names)
	if err != nil || len(names.Streams) == 0 {
		return "", err
	}
	return names.Streams[0], nil
}

// readLetter decodes a stored letter. Anybody who may publish to the subject can write
// any headers, so ours count only if they fit together and to the subject. Without them
// a letter has a message and no history.
func (s *source) readLetter(got *storedMessage) rota.Letter {
	m := &got.Message
	id := strconv.FormatUint(m.Seq, 10)
	l := rota.Letter{ID: id, Time: m.Time, Reason: "not known: the letter has no headers that rota has written",
		Message: rota.Message{ID: s.deadStream() + "-" + id, Partition: strings.TrimPrefix(m.Subject, s.set.Dead+"."), Value: m.Data, Attempt: 1}}
	header, err := nats.DecodeHeadersMsg(m.Hdrs)
	if err != nil {
		return l
	}
	for k, vs := range header {
		for _, v := range vs {
			if !reserved(k) {
				l.Message.Headers = append(l.Message.Headers, rota.Header{Key: k, Value: []byte(v)})
			}
		}
	}
	sequence, err := strconv.ParseUint(header.Get(headerPosition), 10, 64)
	if err != nil || header.Get(headerStream) != s.set.Stream || header.Get(headerOf) != l.Message.Partition {
		return l
	}
	attempts, err1 := strconv.ParseUint(header.Get(headerAttempts), 10, 31)
	dead, err2 := time.Parse(time.RFC3339Nano, header.Get(headerTime))
	sent, err3 := time.Parse(time.RFC3339Nano, header.Get(headerSent))
	if errors.Join(err1, err2, err3) != nil || attempts == 0 {
		return l
	}
	if v := header.Get(headerMessage); v != "" {
		l.Message.ID = oneLine(v)
	}
	l.Message.Position, l.Message.Attempt, l.Message.Time = sequence, int(attempts), sent
	l.Time, l.Reason, l.Group = dead, oneLine(header.Get(headerReason)), oneLine(header.Get(headerGroup))
	if _, err := strconv.ParseUint(header.Get(headerFormer), 10, 64); err == nil {
		l.Former = header.Get(headerFormer)
	}
	return l
}

// DropLetter removes a dead letter.
func (s *source) DropLetter(ctx context.Context, id string) error {
	seq, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return fmt.Errorf("rotanats: dead letter %.40q: %w: IDs are numbers", id, rota.ErrNotFound)
	}
	stream, err := s.letterStream(ctx)
	if err != nil {
		return fmt.Errorf("rotanats: dead letters of %s: %w", s.set.Stream, err)
	}
	missing := fmt.Errorf("rotanats: dead letter %s of %s: %w", id, s.set.Stream, rota.ErrNotFound)
	if stream == "" {
		return missing
	}
	// The stream may be somebody's who stores more in it: only letters are removed.
	var got storedMessage
	err = s.ask(ctx, "STREAM.MSG.GET."+stream, map[string]any{"seq": seq}, &got)
	if code(err) == codeNoMessage || err == nil && !strings.HasPrefix(got.Message.Subject, s.set.Dead+".") {
		return missing
	}
	if err == nil {
		var done answer
		err = s.ask(ctx, "STREAM.MSG.DELETE."+stream, map[string]any{"seq": seq, "no_erase": true}, &done)
		if code(err) == codeNoMessage || code(err) == codeNoSequence {
			return nil // an earlier attempt whose answer was lost, or somebody else, has removed it
		}
	}
	if err != nil {
		return fmt.Errorf("rotanats: drop dead letter %s of %s: %w", id, s.set.Stream, err)
	}
	return nil
}

// codeNoSequence is JetStream's error for a message that is not there to be deleted.
const codeNoSequence = 10043

// RenewLetter stores a letter again and drops the former one.
func (s *source) RenewLetter(ctx context.Context, l rota.Letter) error {
	id := fmt.Sprintf("%s-%s-%s-again-%s", s.set.Stream, l.Group, l.Message.Partition, l.Former)
	if err := s.storeLetter(ctx, ctx.Err, id, &l); err != nil {
		return err
	}
	return s.DropLetter(ctx, l.Former)
}
