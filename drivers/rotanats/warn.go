package rotanats

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// warnEvery is how often one and the same thing is warned of, and mostWarned how
// many things are within that time.
const (
	warnEvery  = time.Minute
	mostWarned = 64
)

// warnings is what people should know although no call has failed.
type warnings struct {
	mu     sync.Mutex
	untold []string
	told   map[string]time.Time
}

func (w *warnings) add(text string) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told == nil {
		w.told = map[string]time.Time{}
	}
	now := time.Now()
	maps.DeleteFunc(w.told, func(_ string, at time.Time) bool { return now.Sub(at) >= warnEvery })
	if _, told := w.told[text]; told || len(w.told) >= mostWarned {
		return false
	}
	w.told[text] = now
	w.untold = append(w.untold, text)
	return true
}

// warn notes what people should know.
func (l *link) warn(text string) {
	if l.warnings.add(text) {
		l.set.Log.Warn(text)
	}
}

// Warnings implements rota.Warner.
func (l *link) Warnings() []string {
	l.warnings.mu.Lock()
	defer l.warnings.mu.Unlock()
	out := slices.Clone(l.warnings.untold)
	l.warnings.untold = nil
	return out
}

// refused warns of a right that is missing. The server tells it apart from the call
// that it refuses, which is answered by nobody.
func (l *link) refused(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	text := err.Error()
	what := "publish to"
	if strings.Contains(text, "for Subscription") {
		what = "subscribe to"
	}
	_, rest, _ := strings.Cut(text, `"`)
	subject, _, ok := strings.Cut(rest, `"`)
	if !ok {
		l.warn(fmt.Sprintf("the server %v refuses what this process asks: %v", l.set, err))
		return
	}
	l.warn(fmt.Sprintf("the server %v does not let this user %s %s: give it that right", l.set, what, l.right(subject)))
}

// right is the right that a subject needs. Subjects that differ by record, partition,
// consumer or message need the same one.
func (l *link) right(subject string) string {
	inbox := cmp.Or(l.set.Inbox, "_INBOX") + "."
	if strings.HasPrefix(subject, inbox) {
		return inbox + ">"
	}
	if parts := strings.SplitN(subject, ".", 4); len(parts) == 4 && parts[0] == "$KV" {
		return strings.Join(parts[:3], ".") + ".>"
	}
	if of := "." + l.set.Stream + "."; l.set.Stream != "" && strings.Contains(subject, of) {
		before, _, _ := strings.Cut(subject, of)
		return before + of + ">"
	}
	return subject
}
