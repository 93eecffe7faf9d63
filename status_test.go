package rota_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/record"
)

// A Status of Inspect survives JSON: decoding gives the same Status.
func TestStatusSurvivesJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 3)
		_, leave := g.start("c1", func(c *rota.Config) { c.Labels = map[string]string{"pod": "p1"} })
		o := &record.Orders{}
		for _, order := range [][]string{{"ban", "q0", "c9"}, {"pin", "q1", "c1"}, {"pause", "q2"}, {"drain", "c8"}, {"freeze"}} {
			if _, err := o.Give(order[0], order[1:]...); err != nil {
				t.Fatal(err)
			}
		}
		o.Ver, o.Log = 1, []record.Order{{At: 1, Who: "ada", What: "freeze", Why: "night"}}
		b, err := record.Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.store.Put(context.Background(), "test/orders", b, 0); err != nil {
			t.Fatal(err)
		}
		g.store.Put(context.Background(), "test/member/00000000000000ff", []byte("junk"), 0)
		pass(3 * time.Second)
		want, err := rota.Inspect(context.Background(), g.store, "test")
		if err != nil {
			t.Fatal(err)
		}
		if len(want.Orders.Bans) != 1 || len(want.Orders.Log) != 1 || len(want.Conditions) != 1 || len(want.History) == 0 || len(want.Members) != 1 {
			t.Fatalf("there is too little to show: %+v", want)
		}
		if b, err = json.Marshal(want); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{`"bans":{"q0":["c9"]}`, `"lease":"5s"`, `"heartbeat_age_s":`, `"class":"B"`, `"leader_name":"c1"`, `"member":"c1"`,
			`"causes":[{"why":"joined","members":["c1"]}`, `"code":"record-unreadable"`, `"waits":[]`} {
			if !strings.Contains(string(b), field) {
				t.Errorf("%s is not in %s", field, b)
			}
		}
		if strings.Contains(string(b), `"token":1`) {
			t.Errorf("a token is a number, which JavaScript would round: %s", b)
		}
		var got rota.Status
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		local(&got)
		local(&want)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("decoded:\n%+v\nwas:\n%+v", got, want)
		}
		leave()
		g.wg.Wait()
	})
}

// local makes times comparable: JSON keeps the instant, not how it was made.
func local(st *rota.Status) {
	st.PhaseSince = st.PhaseSince.UTC().Round(0)
	for i := range st.Members {
		m := &st.Members[i]
		m.Sent, m.Age = m.Sent.UTC().Round(0), m.Age.Round(time.Millisecond)
	}
	for i := range st.Partitions {
		st.Partitions[i].Since = st.Partitions[i].Since.UTC().Round(0)
	}
	for i := range st.History {
		st.History[i].Time = st.History[i].Time.UTC().Round(0)
	}
	for i := range st.Orders.Log {
		st.Orders.Log[i].Time = st.Orders.Log[i].Time.UTC().Round(0)
	}
}

// A group that nobody has joined yet shows empty lists, not null.
func TestAnEmptyStatusHasLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		m, leave := g.start("c1", nil)
		b, err := json.Marshal(m.Status())
		if err != nil || strings.Contains(string(b), ":null") {
			t.Errorf("%v: %s", err, b)
		}
		leave()
		g.wg.Wait()
	})
}

// A handler can check that its partition is still owned, and for how long.
func TestAHandlerKnowsItsOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 1)
		g.src.Publish("q0", []byte("a"))
		var kept rota.Ownership
		_, leave := g.start("c1", func(c *rota.Config) {
			c.Handle = func(_ context.Context, msg rota.Message) error {
				kept = msg.Ownership()
				if err := kept.Check(); err != nil || kept.Remaining() <= 0 || kept.Remaining() > 5*time.Second ||
					kept.Partition() != msg.Partition || kept.Token() != msg.Token || kept.Session() != msg.Session {
					t.Errorf("the ownership of %+v is %v, with %v left: %v", msg, kept, kept.Remaining(), err)
				}
				return nil
			}
		})
		pass(3 * time.Second)
		if kept == (rota.Ownership{}) {
			t.Fatal("nothing was handled")
		}
		leave()
		g.wg.Wait()
		if err := kept.Check(); err != rota.ErrLost || kept.Remaining() != 0 {
			t.Errorf("after the member left: %v, %v left", err, kept.Remaining())
		}
	})
}

// The ownership of a message that a test made has ended, and all its methods are safe
// to call.
func TestAMessageOfNobodyHasAnEndedOwnership(t *testing.T) {
	own := rota.Message{Partition: "q0"}.Ownership()
	if err := own.Check(); err != rota.ErrLost || own.Remaining() != 0 {
		t.Errorf("%v, %v left", err, own.Remaining())
	}
	if err := own.Settle(func() error { t.Error("settled"); return nil }); err != rota.ErrLost {
		t.Errorf("Settle: %v", err)
	}
	select {
	case <-own.Stop():
	default:
		t.Error("it was not told to stop")
	}
	own.Started()
	own.Progress(1)
	own.Tell("odd", "something")
	if meta, _ := own.Meta(); own.Partition() != "" || own.Token() != 0 || own.Session() != "" || len(meta) != 0 {
		t.Errorf("it is %v of session %q with %v", own, own.Session(), meta)
	}
}

// A wait tells since which plan it lasts, and the phase since when the oldest does.
func TestWaitsTellSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, 2)
		for i := range 2 {
			g.src.Publish(fmt.Sprintf("q%d", i), []byte("x"))
		}
		_, leave1 := g.start("c1", func(c *rota.Config) { c.Handle = g.handle(c.Name, 20*time.Second) })
		pass(10 * time.Second)
		_, leave2 := g.start("c2", nil)
		pass(5 * time.Second) // the handler of c1 still works on what c2 is to get
		st, err := rota.Inspect(t.Context(), g.store, "test")
		if err != nil || len(st.Waits) != 1 || st.Phase != rota.Changing {
			t.Fatalf("%v: %+v", err, st.Waits)
		}
		if age := time.Since(st.Waits[0].Since); age < 4*time.Second || age > 5*time.Second || !st.PhaseSince.Equal(st.Waits[0].Since) {
			t.Errorf("it waits since %v, and the phase lasts since %v", st.Waits[0].Since, st.PhaseSince)
		}
		pass(30 * time.Second)
		leave1()
		leave2()
		g.wg.Wait()
	})
}
