package record

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// decode reads a record of any kind.
func decode(k kind, b []byte) (Record, error) {
	switch k {
	case kindPlan:
		return DecodePlan(b)
	case kindRoster:
		return DecodeRoster(b)
	case kindOrders:
		return DecodeOrders(b)
	case kindMember:
		return DecodeMember(b)
	case kindLoads:
		return DecodeLoads(b)
	}
	return DecodeHistory(b)
}

var kinds = []kind{kindPlan, kindRoster, kindOrders, kindMember, kindHistory, kindLoads}

func TestRandomRecordsComeBack(t *testing.T) {
	for _, k := range kinds {
		for seed := range uint64(2000) {
			x := random{rand.New(rand.NewPCG(seed, uint64(k)))}.record(k)
			b, err := Encode(x)
			if err != nil {
				t.Fatalf("seed %d: %v\n%+v", seed, err, x)
			}
			y, err := decode(k, b)
			if err != nil {
				t.Fatalf("seed %d: %v\n%+v", seed, err, x)
			}
			if !reflect.DeepEqual(x, y) {
				t.Fatalf("seed %d: wrote %+v\nread %+v", seed, x, y)
			}
			if again := y.Append([]byte("x")); !bytes.Equal(again[1:], b) {
				t.Fatalf("seed %d: wrote %x\nthen  %x", seed, b, again[1:])
			}
		}
	}
}

// Every byte has a meaning: a record with one byte changed is refused, or is
// another record with this very encoding. A record that is cut short is refused.
func TestEveryByteCounts(t *testing.T) {
	for _, k := range kinds {
		for seed := range uint64(40) {
			rnd := rand.New(rand.NewPCG(seed, uint64(k)))
			b := random{rnd}.record(k).Append(nil)
			for i := range b {
				c := bytes.Clone(b)
				c[i] ^= byte(1 + rnd.UintN(255))
				checkDecoding(t, k, c)
				if _, err := decode(k, b[:i]); err == nil {
					t.Fatalf("%x: accepted though cut short to %d bytes", b, i)
				}
			}
		}
	}
}

// checkDecoding checks what must hold for any bytes.
func checkDecoding(t *testing.T, k kind, b []byte) {
	t.Helper()
	x, err := decode(k, b)
	if short, _ := k.names(); err != nil {
		if !strings.HasPrefix(err.Error(), short+": ") {
			t.Fatalf("error %q does not name the record", err)
		}
		return
	}
	again, err := Encode(x)
	if err != nil {
		t.Fatalf("decoded, but not to be encoded: %v\n%+v", err, x)
	}
	if !bytes.Equal(again, b) {
		t.Fatalf("read  %x\nwrote %x", b, again)
	}
}

// A short record that claims a million entries must not make the reader allocate
// them.
func TestShortInputsAllocateLittle(t *testing.T) {
	million := []byte{0xff, 0xff, 0x3f}
	for _, k := range kinds {
		for at := 2; at < 60; at++ {
			b := append(append([]byte{byte(k), version}, make([]byte, at)...), million...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := decode(k, b); err == nil {
				t.Fatalf("%x: accepted", b)
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
				t.Errorf("%x: %d bytes allocated", b, n)
			}
		}
	}
}

func TestEmptyListsAreNil(t *testing.T) {
	x := &Orders{Ver: 1, Add: []string{}, Meta: []Meta{{Partition: "a", Pairs: []Pair{}}}, Log: []Order{}}
	y, err := DecodeOrders(x.Append(nil))
	if want := (&Orders{Ver: 1, Meta: []Meta{{Partition: "a"}}}); err != nil || !reflect.DeepEqual(y, want) {
		t.Errorf("%+v, %v; want %+v", y, err, want)
	}
	p := &Plan{Gen: 1, Term: 1, Members: []Session{}, Rows: []Row{}}
	q, err := OpenPlan(p.Append(nil))
	if want := (&Plan{Gen: 1, Term: 1}); err != nil || !reflect.DeepEqual(q, want) {
		t.Errorf("%+v, %v; want %+v", q, err, want)
	}
}

func TestStrings(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Session(0xbeef).String(), "000000000000beef"},
		{Session(math.MaxUint64).String(), "ffffffffffffffff"},
		{MakeToken(29_000_000, 7).String(), "29000000.7"},
		{Token(0).String(), "0.0"},
		{fmt.Sprint(Incremental, Eager, Mode(2)), "incremental eager unknown 2"},
		{fmt.Sprint(Free, Owned, Revoking, RowState(3)), "FREE OWNED REVOKING unknown 3"},
		{fmt.Sprint(Live, Leaving, Evicted, Dead, Left, MemberState(5)), "LIVE LEAVING EVICTED DEAD LEFT unknown 5"},
		{NoReason.String(), ""},
		{fmt.Sprint(Paused, Removed, Returning, Quarantined, Unplaced, Failing, Reason(7)),
			"paused removed returning quarantined unplaced failing unknown 7"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

// random makes valid records. Its numbers are of every magnitude, its lists mostly
// short.
type random struct{ *rand.Rand }

func (r random) record(k kind) Record {
	switch k {
	case kindPlan:
		return r.plan()
	case kindRoster:
		return r.roster()
	case kindOrders:
		return r.orders()
	case kindMember:
		return r.member()
	case kindLoads:
		return r.loads()
	}
	return &History{Plans: some(r, func() Past {
		causes := some(r, func() Cause {
			return Cause{r.word(64), some(r, func() string { return r.word(128) }), r.Uint32()}
		})
		return Past{r.number(), r.number(), int64(r.Uint64()), causes, r.Uint32(), r.Uint32()}
	})}
}

func (r random) number() uint64   { return r.Uint64() >> (2 + r.UintN(62)) }
func (r random) flag() bool       { return r.IntN(2) == 0 }
func (r random) session() Session { return Session(r.Uint64()>>r.UintN(60) | 1) }

// word is a text of at most n bytes, never empty.
func (r random) word(n int) string {
	const letters = "aaabcxyz0123-./ *>äß€𝄞"
	s := string([]rune(letters)[r.IntN(22)])
	for len(s) < n-4 && r.IntN(8) > 0 {
		s += string([]rune(letters)[r.IntN(22)])
	}
	return s
}

func some[T any](r random, one func() T) (list []T) {
	for range r.IntN(1 << r.IntN(5)) {
		list = append(list, one())
	}
	return list
}

// keyed makes a list that is sorted by a key, which one sets to the word it is
// given.
func keyed[T any](r random, n int, one func(word string) T) (list []T) {
	words := some(r, func() string { return r.word(n) })
	slices.Sort(words)
	for _, w := range slices.Compact(words) {
		list = append(list, one(w))
	}
	return list
}

func byID[T any](r random, below int, one func(ID) T) (list []T) {
	if below == 0 {
		return nil
	}
	ids := some(r, func() ID { return ID(r.IntN(below)) })
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		list = append(list, one(id))
	}
	return list
}

func (r random) pairs() []Pair {
	return keyed(r, 100, func(w string) Pair { return Pair{w, strings.TrimSpace(r.word(100)) + "\n\x00"} })
}

func (r random) plan() *Plan {
	p := &Plan{
		Incarnation: uint32(r.number()) % (LastIncarnation + 1), Gen: max(r.number(), 1), Write: r.Uint64(), Server: "srv-" + r.word(100),
		Hold: r.flag(), Term: max(r.number(), 1), Leader: Session(r.Uint64()), ID: r.number(), Mode: Mode(r.IntN(2)),
		Roster: r.number(), Orders: r.number(),
		Members: some(r, r.session),
		Returns: keyed(r, 128, func(w string) Return { return Return{w, r.Uint32()} }),
	}
	p.Decided = p.Gen - r.number()%p.Gen
	slices.Sort(p.Members)
	p.Members = slices.Compact(p.Members)
	p.Size.Wanted = r.Uint32()
	for _, s := range p.Members {
		if r.flag() {
			p.Size.Chosen = append(p.Size.Chosen, s)
		}
	}
	r.Shuffle(len(p.Members), func(i, j int) { p.Members[i], p.Members[j] = p.Members[j], p.Members[i] })
	r.rows(p)
	p.Kills = byID(r, len(p.Rows), func(id ID) Kill { return Kill{id, r.Uint32(), r.session(), r.IntN(2) == 0} })
	return p
}

// rows makes rows that are more or less alike, so that every width and form of
// column occurs.
func (r random) rows(p *Plan) {
	others := append(some(r, r.session), r.session())
	someone := func() Session {
		if n := len(p.Members); n > 0 && r.IntN(8) > 0 {
			return p.Members[r.IntN(n)]
		}
		return others[r.IntN(len(others))]
	}
	counter, spread := uint32(r.number()), r.number()
	rare, mixed := 1+r.IntN(20), r.IntN(3)
	for range r.IntN(1 << r.IntN(9)) {
		row := Row{Reason: Reason(r.IntN(6)), Rev: p.Gen - r.Uint64N(min(spread, p.Gen-1)+1)}
		inc := p.Incarnation
		if r.IntN(rare) == 0 {
			inc -= min(inc, uint32(r.number()))
		}
		if row.State = RowState(min(mixed, r.IntN(3))); row.State != Free {
			row.Owner = someone()
			counter = max(counter, 1)
		}
		row.Token = MakeToken(inc, max(counter, 1)-1+uint32(r.IntN(1<<r.IntN(3))))
		if row.State != Free && row.Token.Counter() == 0 {
			row.Token++
		}
		if r.IntN(rare) == 0 {
			row.To = someone()
		}
		p.Rows = append(p.Rows, row)
	}
}

func (r random) roster() *Roster {
	x := &Roster{Ver: max(r.number(), 1), Entries: keyed(r, 256, func(w string) Partition {
		return Partition{w, []string{"", r.word(256)}[r.IntN(2)], r.pairs(), r.flag()}
	})}
	r.Shuffle(len(x.Entries), func(i, j int) { x.Entries[i], x.Entries[j] = x.Entries[j], x.Entries[i] })
	return x
}

func (r random) orders() *Orders {
	names := func() []string { return some(r, func() string { return r.word(128) }) }
	x := &Orders{
		Ver: max(r.number(), 1), Add: names(), Remove: names(), Pauses: names(), Drains: names(), Freeze: r.flag(),
		Meta:    keyed(r, 256, func(w string) Meta { return Meta{w, r.pairs()} }),
		Topics:  keyed(r, 256, func(w string) Topic { return Topic{w, r.pairs()} }),
		Pins:    keyed(r, 256, func(w string) Pin { return Pin{w, r.word(128)} }),
		Release: some(r, func() Release { return Release{r.word(256), r.Uint32()} }),
		Log: some(r, func() Order {
			return Order{-int64(r.number()), r.word(100), r.word(1024), "because\n\t" + r.word(100)}
		}),
	}
	for _, p := range keyed(r, 4, func(w string) string { return w }) {
		x.Bans = append(x.Bans, keyed(r, 128, func(w string) Pin { return Pin{p, w} })...)
	}
	return x
}

func (r random) member() *Member {
	m := &Member{
		Session: r.session(), State: MemberState(r.IntN(5)),
		Lease: 1 + time.Duration(r.Int64N(int64(24*time.Hour))), Beat: 1 + time.Duration(r.Int64N(int64(24*time.Hour))),
		Seq: r.number(), AckInc: r.Uint32() % (LastIncarnation + 1), AckGen: r.number(),
		Stopping: byID(r, 1<<24, func(id ID) ID { return id }),
		Starting: byID(r, 100, func(id ID) ID { return id }),
		GaveUp: byID(r, 1<<24, func(id ID) GaveUp {
			return GaveUp{id, MakeToken(r.Uint32(), r.Uint32()), "it\nfailed: " + r.word(500)}
		}),
		Bug: r.number(), Proof: r.flag(), Returning: r.flag(), Was: r.session(),
		Took:    time.Duration(r.Int64N(int64(24 * time.Hour))),
		Load:    byID(r, 1<<24, func(id ID) Load { return Load{id, r.number()} }),
		Handled: r.number(), Busy: uint32(r.number() % 1001),
		Name:   r.word(128),
		Host:   Host{r.word(128), r.Uint32(), r.number(), r.number()},
		Labels: r.pairs(), Sent: int64(r.Uint64()),
		Conditions: some(r, func() Condition {
			return Condition{r.word(64), []string{"", r.word(256)}[r.IntN(2)], r.word(256)}
		}),
		Letters: r.number(),
	}
	return m
}

func (r random) loads() *Loads {
	return &Loads{
		At: int64(r.Uint64()), Unit: r.word(64), Known: r.flag(), Looked: int64(r.Uint64()), Moved: r.flag(), Needs: r.word(100),
		Wanted: r.Uint32(), Used: r.Uint32(), Asked: int64(r.Uint32()), Answer: "refused",
		Members: some(r, func() MemberLoad { return MemberLoad{r.session(), r.number(), r.number()} }),
		Parts:   some(r, func() PartLoad { return PartLoad{r.number(), r.number()} }),
	}
}
