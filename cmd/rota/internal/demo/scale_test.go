package demo

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/rotatest"
)

// TestAScalerEndsOnlyMembersWithoutPartitions asks for the end of members that must stay.
func TestAScalerEndsOnlyMembersWithoutPartitions(t *testing.T) {
	store := rotatest.NewMemStore()
	m, err := rota.New(rota.Config{Group: demoGroup, Name: "c1", Store: store, NewGroup: true, Lease: 10 * time.Second,
		Source: rota.Func([]string{"p"}, func(_ context.Context, own rota.Ownership) error { <-own.Stop(); return nil })})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- m.Run(ctx) }()
	defer func() { cancel(); <-ran }()
	session := ""
	trial.Until(t, "an owner", func() bool {
		st, err := rota.Inspect(ctx, store, demoGroup)
		if err != nil || len(st.Members) == 0 || st.Members[0].Partitions == 0 {
			return false
		}
		session = st.Members[0].Session
		return true
	})
	sup := &supervisor{children: []*child{{name: "c1", session: session}, {name: "c2", session: "s2", over: true}, {name: "c3", session: "s3", leaving: true}}}
	s := &scaled{ctx, sup, store, 1}
	for _, c := range []struct{ name, session, want string }{
		{"c1", session, "it owns 1 partition"},
		{"c1", "old", "it runs in another session by now"},
		{"c2", "s2", ""}, // it has ended
		{"c3", "s3", ""}, // it ends
		{"c9", "s9", "this rota up has never started it"},
	} {
		if err := s.End(c.name, c.session); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("end %s of session %s: %v, want %q", c.name, c.session, err, c.want)
		}
	}
	if sup.children[0].leaving || s.Running() != 1 {
		t.Error("an owner was asked to leave")
	}
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "1 is the most that --scale allows") {
		t.Errorf("one too many: %v", err)
	}
}
