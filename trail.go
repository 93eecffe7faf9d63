package rota

import (
	"fmt"
	"strings"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// trail keeps the newest events of the core, for the report of a broken assertion.
type trail struct {
	events [64]trailed
	n      int
}

// trailed is as small as it can be: every session has 64.
type trailed struct {
	at      core.Time
	session record.Session
	cell    core.Cell
	kind    core.Kind
	verb    core.Verb
	outcome core.Outcome
}

func (t *trail) add(now core.Time, ev *core.Event) {
	t.events[t.n%len(t.events)] = trailed{now, ev.Key.Session, ev.Key.Cell, ev.Kind, ev.Verb, ev.Outcome}
	t.n++
}

func (t *trail) String() string {
	var b strings.Builder
	for i := max(0, t.n-len(t.events)); i < t.n; i++ {
		e := &t.events[i%len(t.events)]
		fmt.Fprintf(&b, "%d kind %d verb %d key %v outcome %d\n", e.at, e.kind, e.verb, core.Key{Cell: e.cell, Session: e.session}, e.outcome)
	}
	return b.String()
}
