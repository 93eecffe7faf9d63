package embedded

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func TestLostMessagesAreNoticed(t *testing.T) {
	at := func(name string, created time.Time, last uint64) server.StreamDetail {
		return server.StreamDetail{Name: name, Created: created, State: server.StreamState{LastSeq: last}}
	}
	old, new := time.Unix(1, 0), time.Unix(2, 0)
	was := []server.StreamDetail{at("A", old, 20), at("B", old, 20), at("C", old, 20), at("D", old, 20)}
	now := []server.StreamDetail{at("A", old, 10), at("B", old, 20), at("C", new, 1), at("E", new, 1)}
	if got, want := shorter(was, now), []loss{{"A", 11, 20}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
