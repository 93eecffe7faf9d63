package rotanats_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
)

// serveUsers runs a server with an administrator "admin" and the given users, each with the
// subjects it may publish to. The password of a user is its name.
func serveUsers(t *testing.T, may map[string][]string) (url func(user string) string) {
	t.Helper()
	users := []*server.User{{Username: "admin", Password: "admin"}}
	for name, subjects := range may {
		users = append(users, &server.User{Username: name, Password: name,
			Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: subjects}}})
	}
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: t.TempDir(), MaxPayload: 8 << 20, Users: users})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	return func(user string) string { return fmt.Sprintf("nats://%s:%s@%s", user, user, ns.Addr()) }
}

// ofGroup returns the subjects that a member of one group publishes to.
func ofGroup(group string) []string {
	return []string{"$KV.rota." + group + ".>", "$JS.API.STREAM.INFO.KV_rota", "$JS.API.STREAM.MSG.GET.KV_rota"}
}

// oldBucket makes the bucket as earlier versions did.
func oldBucket(t *testing.T, js jetstream.JetStream, name string) jetstream.Stream {
	t.Helper()
	st, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"}, Description: "records of rota",
		MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1,
		Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowMsgTTL: true,
		RePublish: &jetstream.RePublish{Source: "$KV." + name + ".>", Destination: "_rota." + name + ".>"},
		Metadata:  map[string]string{"team": "billing"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestOneGroupCannotWipeAnother has a credential for the keys of g1 only, and tries every
// write that could remove records of other groups. The bucket is one that rota has
// created, or one of an earlier version that it has mended.
func TestOneGroupCannotWipeAnother(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(map[bool]string{false: "new bucket", true: "old bucket"}[old], func(t *testing.T) {
			t.Parallel()
			url := serveUsers(t, map[string][]string{"g1": ofGroup("g1"), "g2": ofGroup("g2")})
			js := newBuckets(t, url("admin")).js
			if old {
				oldBucket(t, js, "rota")
				if _, err := js.Publish(t.Context(), "$KV.rota.g1.before", []byte("v")); err != nil {
					t.Fatal(err)
				}
			}
			admin := rotanats.Store(url("admin"))
			defer admin.Close()
			if _, err := admin.Put(t.Context(), "g2/plan", []byte("v"), 0); err != nil {
				t.Fatal(err)
			}
			one, two := rotanats.Store(url("g1")), rotanats.Store(url("g2"))
			defer one.Close()
			defer two.Close()
			for s, key := range map[rota.Store]string{one: "g1/plan", two: "g2/orders"} {
				if _, err := s.Put(t.Context(), key, []byte("v"), 0); err != nil {
					t.Fatalf("%s: %v", key, err)
				}
			}
			nc, err := nats.Connect(url("g1"))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			for _, roll := range []string{"all", "sub", "ALL"} {
				msg := nats.NewMsg("$KV.rota.g1.x")
				msg.Header.Set("Nats-Rollup", roll)
				if r, err := nc.RequestMsg(msg, 10*time.Second); err != nil || !strings.Contains(string(r.Data), `"error"`) {
					t.Errorf("Nats-Rollup %s is not refused: %v, %v", roll, r, err)
				}
			}
			for _, key := range []string{"g2/plan", "g2/orders", "g1/plan"} {
				if _, err := two.Get(t.Context(), key); err != nil {
					t.Errorf("after roll-ups of g1: %s: %v", key, err)
				}
			}
			large := nats.NewMsg("$KV.rota.g1.member.x")
			large.Data = make([]byte, 7<<20)
			if r, err := nc.RequestMsg(large, 10*time.Second); err != nil || !strings.Contains(string(r.Data), `"error"`) {
				t.Errorf("7 MB are not refused: %v", err)
			}
			st, err := js.Stream(t.Context(), "KV_rota")
			if err != nil {
				t.Fatal(err)
			}
			if err := st.Purge(t.Context()); err == nil {
				t.Error("a purge is not refused")
			}
		})
	}
}

// TestOldBucketIsMended checks that mending a bucket keeps its records, revisions, identity
// and the settings that rota does not know. A store that uses it goes on, its watch too.
func TestOldBucketIsMended(t *testing.T) {
	t.Parallel()
	s := serve(t)
	js := newBuckets(t, s.URL()).js
	made := oldBucket(t, js, "rota").CachedInfo().Created
	ack, err := js.Publish(t.Context(), "$KV.rota.g.before", []byte("v"))
	if err != nil {
		t.Fatal(err)
	}
	st := rotanats.Store(s.URL() + "?sync=always")
	defer st.Close()
	e, err := st.Get(t.Context(), "g/before")
	if err != nil || uint64(e.Rev) != ack.Sequence || string(e.Value) != "v" {
		t.Fatalf("the record: %+v, %v", e, err)
	}
	now, err := js.Stream(t.Context(), "KV_rota")
	if err != nil {
		t.Fatal(err)
	}
	info := now.CachedInfo()
	c := info.Config
	if c.AllowRollup || !c.DenyPurge || c.MaxMsgSize != 1<<20 {
		t.Errorf("it was not mended: %+v", c)
	}
	if !info.Created.Equal(made) || c.Metadata["team"] != "billing" || c.Description != "records of rota" || c.RePublish == nil || !c.AllowMsgTTL {
		t.Errorf("more was changed than had to be: %+v", info)
	}
	if _, err := st.Put(t.Context(), "g/before", []byte("w"), e.Rev); err != nil {
		t.Errorf("the next write: %v", err)
	}
	if got := st.(rota.Classifier).Class(); got != rota.ClassB {
		t.Errorf("class %v", got)
	}
}

// TestOldBucketWithoutTheRightIsRefused checks that the error has the command that mends
// the bucket.
func TestOldBucketWithoutTheRightIsRefused(t *testing.T) {
	t.Parallel()
	url := serveUsers(t, map[string][]string{"g1": ofGroup("g1")})
	oldBucket(t, newBuckets(t, url("admin")).js, "rota")
	st := rotanats.Store(url("g1"))
	defer st.Close()
	_, err := st.Put(t.Context(), "g1/plan", nil, 0)
	if err == nil {
		t.Fatal("it was used")
	}
	for _, says := range []string{"Nats-Rollup", "nats stream edit KV_rota --no-allow-rollup --deny-purge --max-msg-size=1048576", "$JS.API.STREAM.UPDATE.KV_rota"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%v: does not say %q", err, says)
		}
	}
	admin := rotanats.Store(url("admin"))
	defer admin.Close()
	if _, err := admin.Get(t.Context(), "g1/plan"); err != rota.ErrNotFound {
		t.Fatal(err)
	}
	if _, err := st.Put(t.Context(), "g1/plan", nil, 0); err != nil {
		t.Errorf("once it was mended: %v", err)
	}
}
