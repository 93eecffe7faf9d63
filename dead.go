package rota

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/record"
)

// A Letter is a dead letter: a message that failed too often, or is bad.
type Letter struct {
	ID      string    // names it within its source: no blanks, at most 64 bytes
	Message Message   // as it was delivered, without token and session; Attempt is how often it was tried
	Group   string    // the group whose handler failed
	Reason  string    // what the handler said
	Time    time.Time // when it became a dead letter
	Former  string    // ID of the letter that it replaces, if it was replayed and failed again
}

// DeadLetters is a Source whose dead letters can be read, dropped and replayed.
type DeadLetters interface {
	// Letters yields the dead letters of a partition, oldest first, or those of all
	// partitions if the name is empty. It reads them one by one: a letter that is
	// stored or dropped meanwhile may be left out.
	Letters(ctx context.Context, partition string) iter.Seq2[Letter, error]

	// DropLetter removes one letter, and returns an error that wraps ErrNotFound if
	// there is none.
	DropLetter(ctx context.Context, id string) error

	// RenewLetter stores l as a new letter, behind all others and with another ID,
	// and then drops the one that l.Former names. If it fails in between, both exist.
	RenewLetter(ctx context.Context, l Letter) error
}

// DeadLetter makes msg a dead letter, after Deliver has returned ErrDead about it, if
// Check allows that: it calls store with the letter to be stored. because is the error
// of Deliver. The letter is reported once store has succeeded; its ID is empty, since
// the source chooses it.
func (o Ownership) DeadLetter(msg Message, because error, store func(Letter) error) error {
	msg.Partition = o.r.name
	if dead, ok := errors.AsType[deadError](because); ok {
		msg.Attempt = dead.attempt
	}
	l := Letter{Message: unowned(msg), Group: o.r.s.m.cfg.Group, Reason: reason(because), Time: time.Now()}
	if err := o.Settle(func() error { return store(l) }); err != nil {
		return err
	}
	o.r.s.tellDead(o.r, &l)
	return nil
}

func unowned(msg Message) Message {
	msg.Token, msg.Session, msg.own = 0, "", Ownership{}
	return msg
}

func reason(err error) string { return strings.TrimPrefix(err.Error(), "rota: ") }

// tellDead reports a dead letter: as an event, and as a condition that counts those of
// the session.
func (s *session) tellDead(r *run, l *Letter) {
	s.tell(Event{Kind: EventDeadLetter, Partition: r.name, Token: Token(r.token), Message: l.Message.ID, Attempt: l.Message.Attempt, Because: l.Reason})
	n := s.dead.Add(1)
	said := "a message was dead-lettered"
	if n > 1 {
		said = fmt.Sprintf("%d messages were dead-lettered", n)
	}
	s.conditions.begin(ConditionInfo{ConditionDeadLetters, "", fmt.Sprintf("%s since this member joined, the last one at %s, of %s: %s",
		said, clockTime(l.Time), r.name, l.Reason)}, l.Time)
}

// reservedMeta begins the keys of metadata that are rota's own. Sources and users cannot
// set them, and see none of them.
const reservedMeta = "rota."

// replayKey is the metadata by which an operator's order to replay letters reaches the
// owner of their partition. The value is their IDs.
const replayKey = reservedMeta + "replay"

// mostReplay limits the IDs of one order in bytes: metadata has 4 KB in all.
const mostReplay = 2048

// Replay orders that the owner of a partition hands dead letters to its handler again,
// between two messages and under its token. A letter that was handled is dropped; one
// that fails again is stored anew, with its new reason and another ID. So an order that
// was carried out has no further effect, and the next Replay for the partition replaces
// it: one without IDs takes it back.
func Replay(ctx context.Context, store Store, group, partition string, ids ...string) error {
	for _, id := range ids {
		if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("rota: %.80q is not the ID of a dead letter", id)
		}
	}
	value := strings.Join(ids, " ")
	if len(value) > mostReplay {
		return fmt.Errorf("rota: %d dead letters are too many for one order: their IDs have %d bytes, and the most is %d", len(ids), len(value), mostReplay)
	}
	key := group + "/orders"
	for {
		o := &record.Orders{}
		e, err := store.Get(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if err == nil {
			if o, err = record.DecodeOrders(e.Value); err != nil {
				return fmt.Errorf("rota: the orders: %w: %w", ErrUnreadable, err)
			}
		}
		changed, err := o.Give("set", partition, replayKey+"="+value)
		if err != nil || !changed {
			return err
		}
		o.Ver++
		b, err := record.Encode(o)
		if err != nil {
			return fmt.Errorf("rota: replay letters of %s: %w", partition, err)
		}
		if _, err = store.Put(ctx, key, b, e.Rev); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// replays carries out orders to replay letters for as long as the run lasts.
func (r *run) replays(from DeadLetters) {
	done := ""
	for {
		order, changed := r.replay.now()
		ids := order[replayKey]
		pause := r.s.m.handlerPause
		for ids != "" && ids != done {
			err := r.replayLetters(from, strings.Fields(ids))
			if err == nil || errors.Is(err, errors.ErrUnsupported) {
				done = ids
				break
			}
			r.s.conditionOnce(ConditionSourceFailed, r.name, fmt.Sprintf("its dead letters cannot be replayed: %v", err))
			if r.rest(pause.step()) != nil {
				return
			}
			if now, _ := r.replay.now(); now[replayKey] != ids {
				break
			}
		}
		select {
		case <-changed:
		case <-r.stop:
			return
		case <-r.ctx.Done():
			return
		}
	}
}

// replayLetters replays those of the letters that are still there. A letter of another
// group is that group's to replay.
func (r *run) replayLetters(from DeadLetters, ids []string) error {
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	var letters []Letter
	for l, err := range from.Letters(r.ctx, r.name) {
		if err != nil {
			return err
		}
		if wanted[l.ID] && l.Message.Partition == r.name && (l.Group == "" || l.Group == r.s.m.cfg.Group) {
			letters = append(letters, l)
		}
		if len(letters) == len(wanted) {
			break
		}
	}
	for i := range letters {
		if err := r.replayLetter(from, &letters[i]); err != nil {
			return err
		}
	}
	return nil
}

// replayLetter hands one letter to the handler. The letter stays until it was handled or
// is stored anew.
func (r *run) replayLetter(from DeadLetters, l *Letter) error {
	msg := l.Message
	msg.Attempt++
	r.own(&msg)
	pause := r.s.m.handlerPause
	err := ErrUntried
	for errors.Is(err, ErrUntried) {
		if r.asked() {
			return ErrStop
		}
		at, lost := r.enter(r.ctx)
		if lost != nil {
			return lost
		}
		if err = r.handle(msg); err == nil {
			r.leave(at, 1)
			break
		}
		r.leave(at, 0)
		if errors.Is(err, ErrUntried) {
			if ended := r.rest(pause.step()); ended != nil {
				return ended
			}
		}
	}
	own := Ownership{r}
	if errors.Is(err, ErrLost) {
		return err
	}
	if err == nil {
		err = own.Settle(func() error { return from.DropLetter(r.ctx, l.ID) })
	} else {
		r.s.tellFailed(r, &msg, err)
		again := Letter{Message: unowned(msg), Group: l.Group, Reason: reason(err), Time: time.Now(), Former: l.ID}
		err = own.Settle(func() error { return from.RenewLetter(r.ctx, again) })
	}
	if errors.Is(err, ErrNotFound) {
		return nil // somebody else has dropped it meanwhile
	}
	return err
}
