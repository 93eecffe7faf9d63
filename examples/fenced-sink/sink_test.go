package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A kind is one kind of sink, at a server of its own.
type kind struct {
	url  string
	read func(t *testing.T, partition string) []string // what a partition has, in order
}

var kinds = map[string]func(*testing.T) kind{"sqlite": inSQLite, "redis": inRedis, "nats": inNATS, "kafka": inKafka}

func TestB_Token_FourSinks(t *testing.T) {
	t.Parallel()
	for name, start := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := start(t)
			staleOwner(t, k)
			lateOpening(t, k)
		})
	}
}

// first is a token so high that a number of 53 bits cannot tell it from the next.
const first = rota.Token(1<<60 + 1)

// A process is one that saves in a sink of its own.
type process struct {
	t    *testing.T
	sink Sink
	msg  rota.Message
}

func newProcess(t *testing.T, k kind, partition string, token rota.Token, session string) *process {
	t.Helper()
	s, err := open(t.Context(), k.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &process{t, s, rota.Message{Partition: partition, Token: token, Session: session}}
}

func (p *process) saves(values ...string) {
	p.t.Helper()
	for _, v := range values {
		if err := p.save(v); err != nil {
			p.t.Errorf("%s of session %s is refused: %v", v, p.msg.Session, err)
		}
	}
}

func (p *process) isRefused(value string) {
	p.t.Helper()
	if err := p.save(value); !errors.Is(err, rota.ErrLost) {
		p.t.Errorf("%s of session %s under token %d is answered by %v, want that the ownership is lost", value, p.msg.Session, p.msg.Token, err)
	}
}

func (p *process) save(value string) error {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	p.msg.Value = []byte(value)
	return p.sink.Save(ctx, p.msg)
}

// staleOwner lets a former owner write late: as one that was frozen in the middle of a handler.
func staleOwner(t *testing.T, k kind) {
	a, b := newProcess(t, k, "orders.0", first, "a"), newProcess(t, k, "orders.0", first+1, "b")
	a.saves("1", "2")
	b.saves("3")
	a.isRefused("late")
	b.saves("4")
	newProcess(t, k, "orders.0", first+1, "c").isRefused("with a token of another session")
	b.saves("5")
	newProcess(t, k, "orders.1", first, "a").saves("of another partition")
	if got, want := k.read(t, "orders.0"), []string{"1", "2", "3", "4", "5"}; !slices.Equal(got, want) {
		t.Errorf("saved are %q, want %q", got, want)
	}
}

// lateOpening lets a former owner open the sink when the later one has written.
func lateOpening(t *testing.T, k kind) {
	b := newProcess(t, k, "orders.2", first+1, "b")
	b.saves("1")
	newProcess(t, k, "orders.2", first, "a").isRefused("late")
	b.saves("2", "3")
	newProcess(t, k, "orders.2", first+2, "c").saves("4")
	b.isRefused("late as well")
	if got, want := k.read(t, "orders.2"), []string{"1", "2", "3", "4"}; !slices.Equal(got, want) {
		t.Errorf("saved are %q, want %q", got, want)
	}
}

func inSQLite(t *testing.T) kind {
	file := filepath.Join(t.TempDir(), "orders.db")
	return kind{"sqlite:" + file, func(t *testing.T, partition string) (all []string) {
		db, err := sql.Open("sqlite", "file:"+file)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		rows, err := db.QueryContext(t.Context(), "SELECT value FROM saved WHERE part = ? ORDER BY id", partition)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var v string
			if err := rows.Scan(&v); err != nil {
				t.Fatal(err)
			}
			all = append(all, v)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return all
	}}
}

func inRedis(t *testing.T) kind {
	addr := rotatest.StartRedis(t).Addr()
	return kind{"redis://" + addr, func(t *testing.T, partition string) []string {
		c := redis.NewClient(&redis.Options{Addr: addr})
		defer c.Close()
		all, err := c.LRange(t.Context(), saved(partition), 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}}
}

func inNATS(t *testing.T) kind {
	addr := rotatest.StartNATS(t).Addr()
	return kind{"nats://" + addr + "?bucket=orders", func(t *testing.T, partition string) (all []string) {
		nc, err := nats.Connect("nats://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		kv, err := js.KeyValue(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		list, err := kv.History(t.Context(), partition)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			var has entry
			if err := json.Unmarshal(e.Value(), &has); err != nil {
				t.Fatal(err)
			}
			all = append(all, string(has.Value))
		}
		return all
	}}
}

func inKafka(t *testing.T) kind {
	addr := rotatest.StartKafka(t).Addr()
	newClient := func(t *testing.T, opts ...kgo.Opt) *kgo.Client {
		c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	if _, err := kadm.NewClient(newClient(t)).CreateTopic(t.Context(), 3, 1, nil, "saved"); err != nil {
		t.Fatal(err)
	}
	return kind{"kafka://" + addr + "?topic=saved", func(t *testing.T, partition string) (all []string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		number, err := numberOf(partition)
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"saved": {number: kgo.NewOffset().AtStart()}}),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
		ends, err := kadm.NewClient(c).ListCommittedOffsets(ctx, "saved")
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup("saved", number)
		for at := int64(0); at < end.Offset; {
			got := c.PollFetches(ctx)
			if err := got.Err(); err != nil {
				t.Fatal(err)
			}
			for r := range got.RecordsAll() {
				if at = r.Offset + 1; !r.Attrs.IsControl() {
					all = append(all, string(r.Value))
				}
			}
		}
		return all
	}}
}

// TestRun runs the example: orders of a stream are saved.
func TestRun(t *testing.T) {
	t.Parallel()
	at := "nats://" + rotatest.StartNATS(t).Addr()
	k := inSQLite(t)
	source := at + "?stream=ORDERS&subject=orders.*&partitions=2&create=true"
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, at, source, k.url) }()
	nc, err := nats.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err := js.Publish(ctx, "orders.1", []byte("shoes"))
		if err == nil {
			break
		}
		if time.Now().After(deadline) { // the member makes the stream
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); len(k.read(t, "orders.1")) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the order is not saved")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := k.read(t, "orders.1"); !slices.Equal(got, []string{"shoes"}) {
		t.Errorf("saved are %q", got)
	}
}
