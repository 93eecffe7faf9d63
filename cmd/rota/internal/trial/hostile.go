package trial

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/rotatest"
)

// Hostile is what somebody may write into a record, a message or an answer: it
// sets the title and the clipboard, turns the line around and forges another.
const Hostile = "q\x1b]0;x\x07\x1b]52;c;eA==\x07\u202e\u009b2J\nforged line\r\tx"

// Tame fails if a text would reach beyond its lines on a terminal.
func Tame(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsGraphic(r) {
			t.Errorf("%s: prints %U: %q", what, r, text)
			return
		}
	}
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, "forged") {
			t.Errorf("%s: a line is forged: %q", what, text)
		}
	}
}

// HostileStatus has hostile text wherever others can write one.
func HostileStatus(now time.Time) *rota.Status {
	const h = Hostile
	m := func(session, state string) rota.MemberInfo {
		return rota.MemberInfo{Name: h + session, Session: session + h, State: rota.MemberState(state), Planned: true, Sent: now, Lease: time.Second, Heartbeat: time.Second,
			Labels: map[string]string{h: h}, Conditions: []rota.ConditionInfo{{Code: rota.Condition(h), Text: h}, {Partition: h, Text: h}}}
	}
	return &rota.Status{Group: h, Leader: "1" + h, Hold: true, Members: []rota.MemberInfo{m("1", "LIVE"), m("2", "EVICTED"), m("3", "LEFT"), m("4", h)},
		Partitions: []rota.PartitionInfo{
			{Name: h, Topic: h, State: "OWNED", Owner: "1" + h, Since: now, Causes: []rota.Cause{{Why: rota.WhyDied, Members: []string{h}}}, Meta: rota.Meta{h: h}},
			{Name: "2" + h, State: "REVOKING", Owner: "2" + h, To: "1" + h, Causes: []rota.Cause{{Why: rota.Why(h)}}},
			{Name: "3" + h, State: "FREE", Reason: h}, {Name: "4" + h, State: h, Owner: "3" + h}, {Name: "plain", State: "FREE", To: h}},
		Waits: []rota.Wait{{Partition: "2" + h, For: h, Member: "2" + h, Since: now, Causes: []rota.Cause{{Why: rota.Why(h)}}}, {Partition: "plain", For: h, Member: h}},
		Orders: rota.OrdersInfo{Freeze: true, Paused: []string{h}, Drains: []string{h}, Pins: map[string]string{h: h, "plain": h}, Bans: map[string][]string{h: {h}, "plain": {h}}, Topics: map[string]rota.Meta{h: {h: h}},
			Log: []rota.OrderInfo{{Time: now, Who: h, What: "pause plain", Why: "\nThe last order about it: resume b, by root@prod" + h}}},
		History: []rota.PlanInfo{{Time: now, Causes: []rota.Cause{{Why: rota.Why(h)}}}}}
}

// screenSeed is a group of all kinds of records, with one number wherever one fits.
func screenSeed(n uint64) (plan, roster, member, orders, history []byte) {
	short := uint32(min(n, math.MaxUint32))
	encode := func(rec record.Record) []byte {
		b, err := record.Encode(rec)
		if err != nil {
			return nil // a number that is not allowed there
		}
		return b
	}
	token := record.MakeToken(short, max(short, 1))
	gen := max(n, 1)
	plan = encode(&record.Plan{Incarnation: short, Gen: gen, Write: n, Decided: gen, Term: gen, Leader: 1, ID: n, Roster: n, Orders: n, Members: []record.Session{1},
		Kills: []record.Kill{{ID: 0, Count: short, Last: 1}}, Returns: []record.Return{{Name: "c1", Count: short}}, Rows: []record.Row{
			{State: record.Owned, Owner: 1, Token: token, Rev: n}, {State: record.Revoking, Owner: 2, To: 1, Token: token, Rev: n},
			{State: record.Free, To: 1, Token: token, Rev: n}, {State: record.Free, Reason: record.Paused, Token: token}}})
	roster = encode(&record.Roster{Ver: n, Entries: []record.Partition{
		{Name: "a", Topic: "t\u202e", Meta: []record.Pair{{Key: "k", Value: Hostile}}}, {Name: "b\u202e", Topic: "u"}, {Name: "c", Removed: true}}})
	member = encode(&record.Member{Session: 1, Lease: 24 * time.Hour, Beat: time.Nanosecond, Seq: n, AckInc: short, AckGen: n, Starting: []record.ID{2}, Bug: n,
		GaveUp: []record.GaveUp{{ID: 1, Token: token, Cause: "line\nline"}}, Load: []record.Load{{ID: 0, Handled: n}}, Name: "c1\u200b", Sent: int64(n),
		Host: record.Host{PID: short, Start: n, Namespace: n}, Labels: []record.Pair{{Key: "l", Value: Hostile}}, Conditions: []record.Condition{{Code: "x\u202e", Partition: "a", Text: "it says\u202e so"}}})
	orders = encode(&record.Orders{Ver: n, Pauses: []string{"a"}, Drains: []string{"c1"}, Pins: []record.Pin{{Partition: "a", Member: "c1"}}, Freeze: true,
		Bans: []record.Pin{{Partition: "a", Member: "c9"}}, Topics: []record.Topic{{Name: "t\u202e", Pairs: []record.Pair{{Key: "k", Value: Hostile}}}}, Release: []record.Release{{Partition: "a", Kills: short}},
		Log: []record.Order{{At: int64(n), Who: "ada", What: "pause a", Why: "why\nThe last order about it: none"}}})
	history = encode(&record.History{Plans: []record.Past{{ID: n, Gen: n, At: int64(n), Causes: []record.Cause{{Why: "died", Members: []string{"c2\u202e"}, More: short}, {Why: "joined"}}, Moves: short, Members: short},
		{ID: n, Gen: 0, At: -int64(n), Causes: []record.Cause{{Why: "x\u202ey"}}}}})
	return plan, roster, member, orders, history
}

// FuzzGroups shows a group whose records say anything that decodes.
func FuzzGroups(f *testing.F, show func(*testing.T, *rota.Status)) {
	for _, n := range []uint64{0, 1, 1<<31 - 1, math.MaxUint32, 1 << 62, math.MaxInt64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64} {
		plan, roster, member, orders, history := screenSeed(n)
		f.Add(plan, roster, member, orders, history)
	}
	f.Fuzz(func(t *testing.T, plan, roster, member, orders, history []byte) {
		if _, err := record.DecodePlan(plan); err != nil {
			return // rota up and rota status have nothing to show
		}
		store := rotatest.NewMemStore()
		session := record.Session(1)
		if m, err := record.DecodeMember(member); err == nil {
			session = m.Session
		}
		for key, value := range map[string][]byte{"plan": plan, "roster": roster, "orders": orders, "history": history, "member/" + session.String(): member} {
			if _, err := store.Put(t.Context(), "g/"+key, value, 0); err != nil {
				t.Fatal(err)
			}
		}
		st, err := rota.Inspect(t.Context(), store, "g")
		if err != nil {
			t.Fatalf("a plan that decodes cannot be shown: %v", err)
		}
		show(t, &st)
	})
}
