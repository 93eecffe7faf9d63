package record

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func goodPlan() *Plan {
	return &Plan{
		Incarnation: 6, Gen: 8, Decided: 7, Term: 2, Leader: 1, Members: []Session{1, 2, 3},
		Kills:   []Kill{{ID: 0, Count: 1, Last: 9}, {ID: 2, Count: 1, Last: 9}},
		Returns: []Return{{"c1", 1}, {"c2", 2}},
		Size:    Size{3, []Session{2, 3}},
		Rows: []Row{
			{State: Owned, Owner: 1, Token: MakeToken(6, 1), Rev: 3},
			{State: Revoking, Owner: 77, To: 2, Token: MakeToken(5, 4), Rev: 8},
			{State: Free, Reason: Paused, To: 88, Token: MakeToken(6, 2), Rev: 1},
			{State: Free},
		},
	}
}

func goodRoster() *Roster {
	return &Roster{Ver: 3, Entries: []Partition{
		{Name: "q0", Topic: "t", Meta: []Pair{{"a", "1"}, {"b", ""}}},
		{Name: "q1", Removed: true},
	}}
}

func goodOrders() *Orders {
	return &Orders{
		Ver: 3, Add: []string{"q9"}, Remove: []string{"q1"},
		Meta:   []Meta{{"q0", []Pair{{"a", "1"}}}, {"q1", nil}},
		Topics: []Topic{{"t", []Pair{{"a", "1"}}}, {"u", nil}},
		Pins:   []Pin{{"q0", "c1"}, {"q1", "c1"}},
		Bans:   []Pin{{"q0", "c1"}, {"q0", "c2"}, {"q1", "c1"}}, Pauses: []string{"q0"}, Drains: []string{"c1"},
		Release: []Release{{"q0", 3}}, Log: []Order{{1, "ann", "pin q0", "why not"}},
	}
}

func goodMember() *Member {
	return &Member{
		Session: 1, Lease: 5 * time.Second, Beat: 2 * time.Second, Seq: 1, Name: "c1",
		Stopping: []ID{1, 2}, Starting: []ID{3}, GaveUp: []GaveUp{{4, MakeToken(1, 1), "broke"}}, Load: []Load{{1, 7}, {2, 9}},
		Host: Host{Boot: "b-1"}, Labels: []Pair{{"pod", "p1"}}, Conditions: []Condition{{"stuck", "q1", "not started"}},
	}
}

func goodHistory() *History {
	return &History{Plans: []Past{{ID: 1, Gen: 1, Causes: []Cause{{"joined", []string{"c1"}, 0}}}}}
}

func TestGoodOnesAreGood(t *testing.T) {
	for _, x := range []Record{goodPlan(), goodRoster(), goodOrders(), goodMember(), goodHistory()} {
		b, err := Encode(x)
		if err == nil {
			_, err = decode(x.kind(), b)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// bad is a valid record that was spoilt in one point.
type bad struct {
	x    Record
	want string // the error of Encode
	// read is the decoder's error for the same record, if it is another one; "-" if
	// such a record cannot be encoded.
	read string
}

func plan(want, read string, spoil func(*Plan)) bad {
	x := goodPlan()
	spoil(x)
	return bad{x, want, read}
}

func row(i int, want, read string, spoil func(*Row)) bad {
	return plan(want, read, func(p *Plan) { spoil(&p.Rows[i]) })
}

func roster(want string, spoil func(*Roster)) bad {
	x := goodRoster()
	spoil(x)
	return bad{x, want, ""}
}

func orders(want string, spoil func(*Orders)) bad {
	x := goodOrders()
	spoil(x)
	return bad{x, want, ""}
}

func member(want, read string, spoil func(*Member)) bad {
	x := goodMember()
	spoil(x)
	return bad{x, want, read}
}

var (
	long257 = strings.Repeat("n", 257)
	nForty  = `"` + long257[:40] + `"…`
)

// tooFar is the error for a counter that is too high to have been reached by
// counting.
func tooFar(field string, n uint64) string {
	last := uint64(LastCount)
	switch {
	case strings.HasSuffix(field, "incarnation"):
		last = LastIncarnation
	case strings.HasSuffix(field, "roster"), field == "roster: ver":
		last = LastRoster
	}
	return fmt.Sprintf("%s is %d, but can be at most %d: rota did not write this record", field, n, last)
}

var badRecords = []bad{
	plan("plan: gen is 0, but starts at 1", "", func(p *Plan) { p.Gen, p.Decided, p.Rows, p.Kills = 0, 0, nil, nil }),
	plan("plan: decided 9 is after gen 8", "", func(p *Plan) { p.Decided = 9 }),
	plan("plan: term is 0, but starts at 1", "", func(p *Plan) { p.Term = 0 }),
	plan(tooFar("plan: incarnation", 1<<32-1<<20+1), "", func(p *Plan) { p.Incarnation = LastIncarnation + 1 }),
	plan(tooFar("plan: gen", 1<<62+1), "", func(p *Plan) { p.Gen = LastCount + 1 }),
	plan(tooFar("plan: term", 1<<64-1), "", func(p *Plan) { p.Term = 1<<64 - 1 }),
	plan(tooFar("plan: id", 1<<64-1), "", func(p *Plan) { p.ID = 1<<64 - 1 }),
	plan(tooFar("plan: roster", 1<<64-1<<52+1), "", func(p *Plan) { p.Roster = LastRoster + 1 }),
	plan(tooFar("plan: orders", 1<<64-1), "", func(p *Plan) { p.Orders = 1<<64 - 1 }),
	roster("roster: ver is 0, but starts at 1", func(r *Roster) { r.Ver = 0 }),
	orders("orders: ver is 0, but starts at 1", func(o *Orders) { o.Ver = 0 }),
	roster(tooFar("roster: ver", 1<<64-1), func(r *Roster) { r.Ver = 1<<64 - 1 }),
	orders(tooFar("orders: ver", 1<<64-1), func(o *Orders) { o.Ver = 1<<64 - 1 }),
	member(tooFar("member: seq", 1<<64-1), "", func(m *Member) { m.Seq = 1<<64 - 1 }),
	member(tooFar("member: ack incarnation", 1<<32-1), "", func(m *Member) { m.AckInc = 1<<32 - 1 }),
	member(tooFar("member: ack gen", 1<<64-1), "", func(m *Member) { m.AckGen = 1<<64 - 1 }),
	plan("plan: mode 2 is unknown", "", func(p *Plan) { p.Mode = 2 }),
	plan(`plan: server "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"… has 129 bytes, more than 128`, "", func(p *Plan) { p.Server = long257[:129] }),
	plan(`plan: server "a\u200bb" contains a character that cannot be printed`, "", func(p *Plan) { p.Server = "a\u200bb" }),
	plan(`plan: server "\xff" is not UTF-8`, "", func(p *Plan) { p.Server = "\xff" }),
	plan("plan: sessions: entry 1 is zero, which is no session", "", func(p *Plan) { p.Members[1] = 0 }),
	plan("plan: sessions: 0000000000000001 appears twice", "", func(p *Plan) { p.Members[2] = 1 }),
	plan("plan: kills: 2 comes after 3, but must be sorted", "-", func(p *Plan) { p.Kills[0].ID = 3 }),
	plan("plan: kills: 2 appears twice", "-", func(p *Plan) { p.Kills[0].ID = 2 }),
	plan("plan: kills: id 16777216 is not below 16777216", "", func(p *Plan) { p.Kills[1].ID = 1 << 24 }),
	plan("plan: kills: id 4 is not one of 4 rows", "", func(p *Plan) { p.Kills[1].ID = 4 }),
	plan(`plan: returns: "c1" comes after "c2", but must be sorted`, "", func(p *Plan) { p.Returns[0].Name, p.Returns[1].Name = "c2", "c1" }),
	plan(`plan: returns: "c1" appears twice`, "", func(p *Plan) { p.Returns[1].Name = "c1" }),
	plan("plan: returns: name is empty", "", func(p *Plan) { p.Returns[0].Name = "" }),
	plan("plan: returns: name "+nForty+" has 129 bytes, more than 128", "", func(p *Plan) { p.Returns[1].Name = long257[:129] }),
	row(0, "plan: row 0: state 3 is unknown", "", func(r *Row) { r.State = 3 }),
	row(0, "plan: row 0: reason 7 is unknown", "", func(r *Row) { r.Reason = 7 }),
	row(0, "plan: row 0: reason 63 is unknown", "", func(r *Row) { r.Reason = 63 }),
	row(2, "plan: row 2: free, but with the owner 0000000000000003", "", func(r *Row) { r.Owner = 3 }),
	row(0, "plan: row 0: owned without an owner", "", func(r *Row) { r.Owner = 0 }),
	row(1, "plan: row 1: revoking without an owner", "", func(r *Row) { r.Owner = 0 }),
	row(0, "plan: row 0: token 6.0, but the counter of a grant starts at 1", "", func(r *Row) { r.Token = MakeToken(6, 0) }),
	row(1, "plan: row 1: token 5.0, but the counter of a grant starts at 1", "", func(r *Row) { r.Token = MakeToken(5, 0) }),
	row(3, "plan: row 3: token 7.0 is of a later incarnation than the plan's, 6",
		"plan: older column: 4294967295 is above 6, the most it can be", func(r *Row) { r.Token = MakeToken(7, 0) }),
	row(1, "plan: row 1: rev 9 is after gen 8", "plan: rev column: 9 is above 8, the most it can be", func(r *Row) { r.Rev = 9 }),

	roster("roster: partition 1: name is empty", func(x *Roster) { x.Entries[1].Name = "" }),
	roster("roster: partition 1: name "+nForty+" has 257 bytes, more than 256", func(x *Roster) { x.Entries[1].Name = long257 }),
	roster(`roster: partition 1: name "q\xff" is not UTF-8`, func(x *Roster) { x.Entries[1].Name = "q\xff" }),
	roster(`roster: partition 1: name "q\n" contains a control character`, func(x *Roster) { x.Entries[1].Name = "q\n" }),
	roster(`roster: partition 1: name "q\u0085" contains a control character`, func(x *Roster) { x.Entries[1].Name = "q\u0085" }),
	roster(`roster: partition 1: name "q0" is already that of partition 0`, func(x *Roster) { x.Entries[1].Name = "q0" }),
	roster("roster: partition 0: metadata: key is empty", func(x *Roster) { x.Entries[0].Meta[0].Key = "" }),
	roster(`roster: partition 0: metadata: value "\xff" of "a" is not UTF-8`, func(x *Roster) { x.Entries[0].Meta[0].Value = "\xff" }),
	roster(`roster: partition 0: metadata: "b" appears twice`, func(x *Roster) { x.Entries[0].Meta[0].Key = "b" }),
	roster(`roster: partition 0: metadata: "b" comes after "c", but must be sorted`, func(x *Roster) { x.Entries[0].Meta[0].Key = "c" }),
	roster("roster: partition 0: metadata: 4097 bytes of keys and values, more than 4096",
		func(x *Roster) { x.Entries[0].Meta[1].Value = strings.Repeat("v", 4097-3) }),

	roster("roster: partition 0: topic "+nForty+" has 257 bytes, more than 256", func(x *Roster) { x.Entries[0].Topic = long257 }),
	roster(`roster: partition 0: topic "t\n" contains a control character`, func(x *Roster) { x.Entries[0].Topic = "t\n" }),

	orders("orders: topics: name is empty", func(x *Orders) { x.Topics[0].Name = "" }),
	orders(`orders: topics: "u" appears twice`, func(x *Orders) { x.Topics[0].Name = "u" }),
	orders(`orders: topics: "u" comes after "v", but must be sorted`, func(x *Orders) { x.Topics[0].Name = "v" }),
	orders(`orders: topics: meta of "t": key is empty`, func(x *Orders) { x.Topics[0].Pairs[0].Key = "" }),
	orders(`orders: topics: meta of "t": 4097 bytes of keys and values, more than 4096`,
		func(x *Orders) { x.Topics[0].Pairs[0].Value = strings.Repeat("v", 4096) }),
	orders("orders: add: partition is empty", func(x *Orders) { x.Add[0] = "" }),
	orders(`orders: remove: partition "\t" contains a control character`, func(x *Orders) { x.Remove[0] = "\t" }),
	orders("orders: meta: partition is empty", func(x *Orders) { x.Meta[0].Partition = "" }),
	orders(`orders: meta of "q0": key is empty`, func(x *Orders) { x.Meta[0].Pairs[0].Key = "" }),
	orders(`orders: meta of "q0": 4097 bytes of keys and values, more than 4096`,
		func(x *Orders) { x.Meta[0].Pairs[0].Value = strings.Repeat("v", 4096) }),
	orders(`orders: meta: "q1" appears twice`, func(x *Orders) { x.Meta[0].Partition = "q1" }),
	orders("orders: pins: partition is empty", func(x *Orders) { x.Pins[0].Partition = "" }),
	orders("orders: pins: member is empty", func(x *Orders) { x.Pins[0].Member = "" }),
	orders(`orders: pins: "q1" appears twice`, func(x *Orders) { x.Pins[0].Partition = "q1" }),
	orders("orders: bans: member is empty", func(x *Orders) { x.Bans[0].Member = "" }),
	orders(`orders: bans: "q0" from "c2" appears twice`, func(x *Orders) { x.Bans[0].Member = "c2" }),
	orders(`orders: bans: "q0" from "c2" comes after "q0" from "c3", but must be sorted`, func(x *Orders) { x.Bans[0].Member = "c3" }),
	orders(`orders: bans: "q0" from "c2" comes after "q1" from "c1", but must be sorted`, func(x *Orders) { x.Bans[0].Partition = "q1" }),
	orders("orders: pauses: partition is empty", func(x *Orders) { x.Pauses[0] = "" }),
	orders("orders: drains: member "+nForty+" has 129 bytes, more than 128", func(x *Orders) { x.Drains[0] = long257[:129] }),
	orders("orders: release: partition is empty", func(x *Orders) { x.Release[0].Partition = "" }),
	orders(`orders: log 0: who "\x1b" contains a control character`, func(x *Orders) { x.Log[0].Who = "\x1b" }),
	orders(`orders: log 0: what "\xff" is not UTF-8`, func(x *Orders) { x.Log[0].What = "\xff" }),
	orders("orders: log 0: why "+nForty+" has 1025 bytes, more than 1024", func(x *Orders) { x.Log[0].Why = strings.Repeat("n", 1025) }),

	member("member: session is zero", "", func(x *Member) { x.Session = 0 }),
	member("member: state 5 is unknown", "", func(x *Member) { x.State = 5 }),
	member("member: lease 0s is not between 1ns and 24h0m0s", "", func(x *Member) { x.Lease = 0 }),
	member("member: lease 24h0m0.000000001s is not between 1ns and 24h0m0s", "", func(x *Member) { x.Lease = 24*time.Hour + 1 }),
	member("member: beat -2s is not between 1ns and 24h0m0s", "", func(x *Member) { x.Beat = -2 * time.Second }),
	member("member: stopping: 1 comes after 2, but must be sorted", "-", func(x *Member) { x.Stopping = []ID{2, 1} }),
	member("member: stopping: id 16777216 is not below 16777216", "", func(x *Member) { x.Stopping[1] = 1 << 24 }),
	member("member: starting: 3 appears twice", "-", func(x *Member) { x.Starting = []ID{3, 3} }),
	member("member: gave-up: id 16777216 is not below 16777216", "", func(x *Member) { x.GaveUp[0].ID = 1 << 24 }),
	member("member: gave-up: 4 appears twice", "-", func(x *Member) { x.GaveUp = append(x.GaveUp, x.GaveUp...) }),
	member(`member: gave-up 4: cause "\x00" contains a control character`, "", func(x *Member) { x.GaveUp[0].Cause = "\x00" }),
	member("member: load: 2 appears twice", "-", func(x *Member) { x.Load[0].ID = 2 }),
	member("member: load: id 16777216 is not below 16777216", "", func(x *Member) { x.Load[1].ID = 1 << 24 }),
	member("member: name is empty", "", func(x *Member) { x.Name = "" }),
	member("member: name "+nForty+" has 129 bytes, more than 128", "", func(x *Member) { x.Name = long257[:129] }),
	member(`member: host boot "\x7f" contains a character that cannot be printed`, "", func(x *Member) { x.Host.Boot = "\x7f" }),
	member("member: labels: 65 pairs, more than 64", "", func(x *Member) { x.Labels = make([]Pair, 65) }),
	member("member: labels: key is empty", "", func(x *Member) { x.Labels[0].Key = "" }),
	member(`member: labels: "pod" appears twice`, "", func(x *Member) { x.Labels = append(x.Labels, x.Labels...) }),
	member("member: conditions: 17, more than 16", "", func(x *Member) { x.Conditions = make([]Condition, 17) }),
	member("member: condition is empty", "", func(x *Member) { x.Conditions[0].Text = "" }),
	member("member: condition code is empty", "", func(x *Member) { x.Conditions[0].Code = "" }),
	member("member: condition code "+nForty+" has 65 bytes, more than 64", "", func(x *Member) { x.Conditions[0].Code = long257[:65] }),
	member(`member: condition partition "\x00" contains a control character`, "", func(x *Member) { x.Conditions[0].Partition = "\x00" }),
	member("member: condition "+nForty+" has 257 bytes, more than 256", "", func(x *Member) { x.Conditions[0].Text = long257 }),

	{&History{Plans: []Past{{Causes: []Cause{{Why: "\xff"}}}}}, `history: entry 0: cause "\xff" is not UTF-8`, ""},
	{&History{Plans: []Past{{Causes: []Cause{{Why: ""}}}}}, `history: entry 0: cause is empty`, ""},
	{&History{Plans: []Past{{Causes: []Cause{{Why: "died", Members: []string{"\n"}}}}}}, `history: entry 0: member of a cause "\n" contains a control character`, ""},
}

func TestBadRecordsAreRefused(t *testing.T) {
	for _, c := range badRecords {
		if _, err := Encode(c.x); fmt.Sprint(err) != c.want {
			t.Errorf("wrote: %v\nwant:  %s", err, c.want)
		}
		if c.read == "" {
			c.read = c.want
		}
		_, err := decode(c.x.kind(), c.x.Append(nil))
		if c.read == "-" {
			if err == nil {
				t.Errorf("read, though %s", c.want)
			}
		} else if fmt.Sprint(err) != c.read {
			t.Errorf("read: %v\nwant: %s", err, c.read)
		}
	}
}

func TestTooLargeIsRefused(t *testing.T) {
	x := &History{}
	for range 800 {
		x.Plans = append(x.Plans, Past{Causes: []Cause{{Why: "w", Members: slices.Repeat([]string{strings.Repeat("c", 99)}, 10)}}})
	}
	want := "history: 808004 bytes, more than the 786432 a record may have"
	if _, err := Encode(x); fmt.Sprint(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := DecodeHistory(x.Append(nil)); fmt.Sprint(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// Duplicates are found by a hash table or, among very many sessions, by sorting.
func TestManyMembersAreUnique(t *testing.T) {
	for _, n := range []int{1, 2, 3, 1000, 4096, 4097, 20_000} {
		p := &Plan{Gen: 1, Term: 1}
		for i := range n {
			p.Members = append(p.Members, Session(i+1)<<32)
		}
		if _, err := DecodePlan(p.Append(nil)); err != nil {
			t.Fatal(err)
		}
		p.Members = append(p.Members, p.Members[n/2])
		want := fmt.Sprintf("plan: sessions: %v appears twice", p.Members[n/2])
		if _, err := DecodePlan(p.Append(nil)); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// raw writes a record by hand, byte by byte where necessary.
func raw(k kind, parts ...any) []byte {
	w := write(nil, k)
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			w.uvarint(uint64(p))
		case string:
			w.b = append(w.b, p...)
		}
	}
	return w.b
}

// rawPlan writes a plan with a valid head: incarnation 6, gen 8, members 1 and 2.
func rawPlan(parts ...any) []byte {
	p := &Plan{Incarnation: 6, Gen: 8, Term: 1, Members: []Session{1, 2}}
	b := p.Append(nil)
	b = b[:len(b)-2] // without the numbers of other sessions and of rows
	return append(b, raw(kindPlan, parts...)[2:]...)
}

// Of three rows, all OWNED: one part for each thing in the encoding.
const (
	states   = "\x01\x01\x01"
	owners   = "\x01\x01\x00\x01\x00" // width 1 from 1
	tos      = "\x01\x00"             // sparse, none
	counters = "\x00\x05"             // 5
	olders   = "\x01\x00"             // sparse, none
	revs     = "\x00\x08"             // 8
	session3 = "\x03\x00\x00\x00\x00\x00\x00\x00"
	session4 = "\x04\x00\x00\x00\x00\x00\x00\x00"
)

func TestBadBytesAreRefused(t *testing.T) {
	if _, err := DecodePlan(rawPlan(0, 3, states, owners, tos, counters, olders, revs)); err != nil {
		t.Fatal(err)
	}
	hist := func(parts ...any) []byte { return raw(kindHistory, parts...) }
	for _, c := range []struct {
		b    []byte
		k    kind
		want string
	}{
		{nil, kindPlan, "plan: kind: cut short: 1 bytes wanted, 0 left"},
		{[]byte("P"), kindPlan, "plan: version: cut short: 1 bytes wanted, 0 left"},
		{[]byte("P\x00"), kindPlan, "plan: version 0 does not exist"},
		{[]byte("P\x01 and more"), kindPlan, "plan: version 1 was written by a development version of rota, before the first release: end its members, then rota group repair takes it away"},
		{[]byte("P\x03 and more"), kindPlan, "plan: version 3, but this member reads versions up to 2: upgrade this member"},
		{[]byte("M\x01"), kindPlan, "plan: this is a member record, not a plan"},
		{[]byte("P\x01"), kindRoster, "roster: this is a plan, not a roster"},
		{[]byte("R\x07"), kindOrders, "orders: this is a roster, not an orders record"},
		{[]byte("H\x01"), kindMember, "member: this is a history, not a member record"},
		{[]byte("<html>"), kindHistory, "history: kind 0x3c is unknown: this is not a history, or it was written by a newer rota: then upgrade this member"},
		{bytes.Repeat([]byte("P"), MaxSize+1), kindPlan, "plan: 786433 bytes, more than the 786432 a record may have"},

		{hist(), kindHistory, "history: plans: cut short"},
		{hist(0, "x"), kindHistory, "history: 1 bytes after the last field"},
		{hist("\x80\x00"), kindHistory, "history: plans: 0 in 2 bytes, not in its shortest form"},
		{hist("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), kindHistory, "history: plans: a number of more than 64 bits"},
		{hist(2, "123456"), kindHistory, "history: plans: 2 entries do not fit in the 6 bytes left"},
		{hist(1, 1, 1, 0, 5, "abc"), kindHistory, "history: causes: 5 entries do not fit in the 3 bytes left"},
		{hist(1, 1, 1, 0, 0, 1<<32, 0), kindHistory, "history: moves: 4294967296 has more than 32 bits"},
		{raw(kindRoster, 1, 1, 1, "q", 0, 0, 2), kindRoster, "roster: removed: 2 is neither 0 nor 1"},
		{raw(kindMember, "1234567"), kindMember, "member: session: cut short: 8 bytes wanted, 7 left"},

		{rawPlan(0, 4, states), kindPlan, "plan: rows: 4 entries do not fit in the 3 bytes left"},
		{rawPlan(0, 3, states, "\x09\x00"), kindPlan, "plan: owner column: width 9 is more than 8 bytes"},
		{rawPlan(0, 3, states, "\x02\x00\x00\x00"), kindPlan, "plan: owner: cut short: 6 bytes wanted, 2 left"},
		{rawPlan(0, 3, states, "\x01\x00\x01\x02\x01", tos, counters, olders, revs), kindPlan, "plan: owner column: base 0 is below every row"},
		{rawPlan(0, 3, states, "\x02\x01\x00\x00\x01\x00\x00\x00", tos, counters, olders, revs), kindPlan, "plan: owner column: width 2 is more than the rows need"},
		{rawPlan(0, 3, states, "\x01\x01\x00\x00\x00", tos, counters, olders, revs), kindPlan, "plan: owner column: width 1 is more than the rows need"},
		{rawPlan(0, 3, states, "\x01\x01\x00\x02\x00", tos, counters, olders, revs), kindPlan, "plan: owner column: 3 is above 2, the most it can be"},
		{rawPlan(0, 3, states, owners, "\x00\x00\x03", counters, olders, revs), kindPlan, "plan: to column: 3 is above 2, the most it can be"},
		{rawPlan(0, 3, states, owners, "\x02\x00", counters, olders, revs), kindPlan, "plan: to: 2 is neither 0 nor 1"},
		{rawPlan(0, 3, states, owners, "\x00\x00\x00", counters, olders, revs), kindPlan, "plan: to column: not in its smaller form"},
		{rawPlan(0, 3, states, owners, "\x01\x03\x00\x01\x02\x00\x01", counters, olders, revs), kindPlan, "plan: to column: not in its smaller form"},
		{rawPlan(0, 3, states, owners, "\x01\x01\x03\x00\x01", counters, olders, revs), kindPlan, "plan: to column: row 3 is out of order, or not one of 3 rows"},
		{rawPlan(0, 3, states, owners, "\x01\x02\x01\x01\x00\x01", counters, olders, revs), kindPlan, "plan: to column: row 1 is out of order, or not one of 3 rows"},
		{rawPlan(0, 3, states, owners, "\x01\x01\x02\x00\x00", counters, olders, revs), kindPlan, "plan: to column: a row is listed with the value 0"},
		{rawPlan(0, 3, states, owners, tos, "\x00\x80\x80\x80\x80\x10", olders, revs), kindPlan, "plan: counter column: 4294967296 is above 4294967295, the most it can be"},
		{rawPlan(0, 3, states, owners, tos, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x01\x00", olders, revs), kindPlan, "plan: counter column: 18446744073709551615 is above 4294967295, the most it can be"},
		{rawPlan(0, 3, states, owners, tos, counters, "\x00\x00\x07", revs), kindPlan, "plan: older column: 7 is above 6, the most it can be"},
		{rawPlan(0, 3, states, owners, tos, counters, olders, "\x00\x09"), kindPlan, "plan: rev column: 9 is above 8, the most it can be"},
		{rawPlan(0, 3, states, owners, tos, counters, olders, revs, "\x00"), kindPlan, "plan: 1 bytes after the last field"},
		{rawPlan(1, session3, 3, states, owners, tos, counters, olders, revs), kindPlan, "plan: other sessions: 0000000000000003 is in no row"},
		{rawPlan(1, session3, 0), kindPlan, "plan: other sessions: 0000000000000003 is in no row"},
		{rawPlan(2, session4, session3, 3, states, "\x01\x02\x00\x01\x02", tos, counters, olders, revs), kindPlan, "plan: other sessions: 0000000000000003 comes after 0000000000000004, but must be sorted"},
	} {
		if _, err := decode(c.k, c.b); fmt.Sprint(err) != c.want {
			t.Errorf("got:  %v\nwant: %s", err, c.want)
		}
	}
}
