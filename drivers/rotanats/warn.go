package rotanats

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// The same warning is given at most once per warnEvery, and at most mostWarned
// different ones in that time.
const (
	warnEvery  = time.Minute
	mostWarned = 64
)

// warnings are sentences for operators about problems that made no call fail.
type warnings struct {
	mu      sync.Mutex
	pending []string
	given   map[string]time.Time // when each was given
}

// add adds a warning unless it was given lately.
func (w *warnings) add(text string) (added bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.given == nil {
		w.given = map[string]time.Time{}
	}
	now := time.Now()
	maps.DeleteFunc(w.given, func(_ string, at time.Time) bool { return now.Sub(at) >= warnEvery })
	if _, lately := w.given[text]; lately || len(w.given) >= mostWarned {
		return false
	}
	w.given[text] = now
	w.pending = append(w.pending, text)
	return true
}

// warn logs a warning and keeps it for Warnings.
func (l *link) warn(text string) {
	if l.warnings.add(text) {
		l.set.Log.Warn(text)
	}
}

// Warnings implements rota.Warner: it returns the warnings since the last call.
func (l *link) Warnings() []string {
	l.warnings.mu.Lock()
	defer l.warnings.mu.Unlock()
	out := slices.Clone(l.warnings.pending)
	l.warnings.pending = nil
	return out
}

// missing says which right is missing, and what to do.
func (l *link) missing(r *refusal) string {
	what := "publish to"
	if !r.publish {
		what = "subscribe to"
	}
	if r.subject == "" {
		return fmt.Sprintf("the server %v refuses a request of this process: %v", l.set, r)
	}
	text := fmt.Sprintf("the server %v does not let this user %s %s: give it that right", l.set, what, l.right(r.subject))
	if r.advisory() {
		text += "; until then changes of leaders in the cluster are noticed later"
	}
	return text
}

// right returns the pattern of the right that a subject needs. Subjects that differ only
// by record, partition, consumer or message need the same right, and cause one warning.
func (l *link) right(subject string) string {
	inbox := cmp.Or(l.set.Inbox, "_INBOX") + "."
	if strings.HasPrefix(subject, inbox) {
		return inbox + ">"
	}
	record := strings.TrimPrefix(subject, l.set.Route())
	if parts := strings.SplitN(record, ".", 4); len(parts) == 4 && parts[0] == "$KV" {
		return strings.TrimSuffix(subject, record) + strings.Join(parts[:3], ".") + ".>"
	}
	if of := "." + l.set.Stream + "."; l.set.Stream != "" && strings.Contains(subject, of) {
		before, _, _ := strings.Cut(subject, of)
		return before + of + ">"
	}
	return subject
}
