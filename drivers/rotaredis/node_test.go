package rotaredis

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// TestANodeIsOneLifeOfAServer restarts a server, and makes it a replica: a node that was
// connected to it ends, instead of sending a command to what the server is now.
func TestANodeIsOneLifeOfAServer(t *testing.T) {
	t.Parallel()
	r := rotatest.StartRedis(t)
	set, err := read(r.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	find := func() *node {
		t.Helper()
		n := newNode(set, r.Addr())
		t.Cleanup(func() { n.end(errClosed) })
		if err := n.learn(ctx); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// ends makes calls until the node has ended: a connection that was cut fails first.
	ends := func(n *node, want error) {
		t.Helper()
		for ctx.Err() == nil && n.ended() == nil {
			if _, err := n.run(ctx, func(ctx context.Context) (any, error) { return n.command(ctx, false, nil, []any{"SET", "sent", "1"}) }); err == nil {
				t.Fatal("the command was carried out")
			}
		}
		if !errors.Is(n.ended(), want) {
			t.Errorf("the node ended with %v, want %v", n.ended(), want)
		}
	}
	n := find()
	if err := errors.Join(r.Kill(), r.Start(ctx)); err != nil {
		t.Fatal(err)
	}
	ends(n, errOther)

	n = find()
	admin := find()
	if _, err := admin.command(ctx, false, nil, []any{"CLIENT", "KILL", "SKIPME", "yes"}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.command(ctx, false, nil, []any{"REPLICAOF", "127.0.0.1", "1"}); err != nil {
		t.Fatal(err)
	}
	ends(n, errDemoted)
}

// TestAFeedOfManySlots subscribes to channels of different slots at once.
func TestAFeedOfManySlots(t *testing.T) {
	t.Parallel()
	r := rotatest.StartRedisCluster(t, rotatest.RedisSetup{}, 1, 0)[0]
	set, err := read(r.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(set, r.Addr())
	defer n.end(errClosed)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := n.learn(ctx); err != nil {
		t.Fatal(err)
	}
	f, err := n.subscription()
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock() // so that one request is due for all
	for i := range 20 {
		f.topics[set.hash(fmt.Sprint("g", i))+"/"] = &topic{watches: map[*watch]bool{{}: true}, on: make(chan struct{})}
	}
	var all []*topic
	for _, topic := range f.topics {
		all = append(all, topic)
	}
	f.mu.Unlock()
	signal(f.asked)
	for _, topic := range all {
		select {
		case <-topic.on:
		case <-f.gone:
			t.Fatal(f.ended())
		case <-ctx.Done():
			t.Fatal("a subscription is not confirmed")
		}
	}
}

// TestAWatchNeverGoesBack shows a watch an older version than it has shown.
func TestAWatchNeverGoesBack(t *testing.T) {
	w := &watch{group: "g", seen: map[string]rota.Rev{}}
	batch, err := w.observe(nil, "/k", "7.5 new", true)
	if err != nil || len(batch) != 1 || batch[0].Key != "g/k" || string(batch[0].Value) != "new" {
		t.Fatalf("%v, %v", batch, err)
	}
	if batch, err := w.observe(nil, "/k", "7.5 new", true); err != nil || len(batch) != 0 {
		t.Errorf("the same version again: %v, %v", batch, err)
	}
	if _, err := w.observe(nil, "/k", "6.9 old", true); !errors.Is(err, errOlder) {
		t.Errorf("an older version: %v", err)
	}
	if batch, err := w.observe(nil, "/k", "", false); err != nil || len(batch) != 1 || !batch[0].Deleted {
		t.Errorf("deleted: %v, %v", batch, err)
	}
	if _, err := w.observe(nil, "/k", "somebody else's", true); !errors.Is(err, errForeign) {
		t.Errorf("what is no record: %v", err)
	}
}
