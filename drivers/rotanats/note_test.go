package rotanats

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
)

var ourName = regexp.MustCompile(`^rota_0123456789abcdef_(0|[1-9][0-9]*)_[A-Z2-7]{6}$`)

// FuzzNote checks that of any note readNote returns only names that rota may have made for
// this partition, under a token not above its reader's, and no token that no plan can have
// granted. What it returns is read again without a change.
func FuzzNote(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	const durable, short = "rota", "0123456789abcdef"
	r := &reader{group: "g", durable: durable}
	era := rota.Token(now.Unix()/4) << 32
	honest := note{Group: "g", Token: era | 7, Consumer: consumerName(durable, short, era|6), Start: 12, Stream: now,
		Former: consumerName(durable, short, era|5), Coming: consumerName(durable, short, era|7), Released: true, Next: 3, Each: time.Second, Back: true}
	honest.Reply = "$JS.ACK.S." + honest.Consumer + ".1.9.4.1700000000000000000.0"
	text, err := json.Marshal(honest)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, uint64(era|7))
	f.Add(text, uint64(era|1))
	f.Add([]byte(strings.Replace(string(text), "$JS.ACK.S.", "$JS.ACK.domain.account.S.", 1)), uint64(era|7))
	f.Add([]byte(strings.Replace(string(text), "$JS.ACK.S.", "$JS.ACK.S.billing.", 1)), uint64(era|7))
	f.Add([]byte(strings.Replace(string(text), "$JS.ACK.S.", "$JS.ACK.*.", 1)), uint64(era|7))
	f.Add([]byte(strings.Replace(string(text), `"g"`, `"other","from":"a b","before":`+fmt.Sprint(era|9), 1)), uint64(era|1))
	for _, s := range []string{"", "null", "{}", "[]", `{"token":18446744073709551615}`, `{"token":-1}`, `{"token":1e300}`, `{"former":"billing"}`,
		`{"token":7,"consumer":"rota_0123456789abcdef_9_ABCDEF"}`, `{"consumer":"rota_0123456789abcdef_01_ABCDEF"}`,
		`{"coming":"rota_0123456789abcdef_1_ABC.>F","stray":"rota_0123456789abcdee_1_ABCDEF"}`, `{"each":-1,"start":18446744073709551615}`,
		`{"group":"a b"}`, `{"group":"other","token":9,"consumer":"rota_0123456789abcdef_9_ABCDEF"}`, `{"group":"g","before":18446744073709551615}`,
		`{"group":"g","before":99,"token":7,"consumer":"rota_0123456789abcdef_9_ABCDEF"}`} {
		f.Add([]byte(s), uint64(era|3))
	}
	f.Fuzz(func(t *testing.T, text []byte, token uint64) {
		own := rota.Token(token)
		p, wrong := readNote(text, r, short, own, now)
		for _, name := range []string{p.Consumer, p.Former, p.Coming, p.Stray} {
			of, ok := consumerToken(name, durable, short)
			if name != "" && !ourName.MatchString(name) {
				t.Errorf("%q comes out of %q", name, text)
			}
			if name != "" && (!ok || strings.ContainsAny(name, ".*> \x00")) {
				t.Errorf("%q comes out of %q", name, text)
			}
			if r.others(p.Group) {
				continue // tokens of other groups mean nothing
			}
			if name != "" && of > p.Token && of > own && of > p.Before {
				t.Errorf("%q comes out of %q", name, text)
			}
			if name != "" && p.Token <= own && of > own && of > p.Before {
				t.Errorf("a successor's consumer %q comes out of %q", name, text)
			}
		}
		if p.Group != "" && !address.Plain(p.Group) {
			t.Errorf("group %q comes out of %q", p.Group, text)
		}
		if uint64(max(p.Token, p.Before))>>32 > max(uint64(now.Unix()/4), token>>32)+24*60*60/4 {
			t.Errorf("token %d comes out of %q", p.Token, text)
		}
		if p.Consumer == "" && (p.Released || p.Next > 0) {
			t.Errorf("%q has released no consumer", text)
		}
		if p.Reply != "" && (!strings.HasPrefix(p.Reply, "$JS.ACK.") || !strings.Contains(p.Reply, "."+p.Consumer+".") || strings.ContainsAny(p.Reply, "*> \r\n")) {
			t.Errorf("%q comes out of %q as a reply subject of %q", p.Reply, text, p.Consumer)
		}
		if p.Back && p.Released && p.Reply == "" {
			t.Errorf("nobody could settle what %q has given back", text)
		}
		again, err := json.Marshal(p)
		if err != nil {
			return // a year that JSON cannot express
		}
		if q, more := readNote(again, r, short, own, now); q != p && !q.Stream.Equal(p.Stream) || len(more) > 0 && p.Token > 0 {
			t.Errorf("%s is read as %+v, %q", again, q, more)
		}
		for _, w := range wrong {
			if w == "" || len(w) > 500 {
				t.Errorf("it says %q", w)
			}
		}
		for _, start := range []uint64{0, 1, p.Start, math.MaxUint64} {
			for _, last := range []uint64{0, 10, math.MaxUint64 - 1} {
				if from, ok := begin(start, min(p.Next, last), last); from == 0 || from > last+1 || ok != (start <= last+1) {
					t.Errorf("begin(%d, %d, %d) is %d, %v", start, min(p.Next, last), last, from, ok)
				}
			}
		}
	})
}

// TestHonestNoteIsBelieved checks that a successor reads a note as it was written.
func TestHonestNoteIsBelieved(t *testing.T) {
	now := time.Now().Round(0)
	era := rota.Token(now.Unix()/4) << 32
	for _, durable := range []string{"rota", "a_b-c", "rota_0123456789abcdef_1_ABCDEF"} {
		r := &reader{group: "g", durable: durable}
		p := note{Group: "g", From: "a b", Before: era | 9, Token: era | 7, Consumer: consumerName(durable, "s", era|6), Start: 12, Former: consumerName(durable, "s", 1),
			Coming: consumerName(durable, "s", era|7), Stray: consumerName(durable, "s", era|7), Released: true, Next: 3, Each: time.Second, Back: true}
		p.Reply = "$JS.ACK.S." + p.Consumer + ".1.9.4.1700000000000000000.0"
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, own := range []rota.Token{era | 7, era | 8, era<<1 | 1} {
			if got, wrong := readNote(text, r, "s", own, now); got != p || wrong != nil {
				t.Errorf("%s: %+v, %q", text, got, wrong)
			}
		}
		if got, _ := readNote(text, r, "s", era|2, now); got.Token <= era|2 {
			t.Errorf("a successor's token became %d", got.Token)
		}
	}
}

// TestNoteOfAnotherGroup lets a group with a lower token take a note over. Until the
// consumers of the old group are replaced their names are believed, also when the note is
// read for the second time.
func TestNoteOfAnotherGroup(t *testing.T) {
	now := time.Now().Round(0)
	era := rota.Token(now.Unix()/4) << 32
	ga, gb := &reader{group: "ga", durable: "d"}, &reader{group: "gb", durable: "d", takeover: "ga"}
	text, err := json.Marshal(note{Group: "ga", Token: era | 7, Consumer: consumerName("d", "s", era|6), Start: 12, Former: consumerName("d", "s", era|5), Released: true, Next: 3})
	if err != nil {
		t.Fatal(err)
	}
	for reads := range 3 {
		n, wrong := readNote(text, gb, "s", 2, now)
		if wrong != nil || n.Consumer == "" || n.Former == "" || n.Start != 12 {
			t.Fatalf("read %d: %+v, %q", reads, n, wrong)
		}
		if err := gb.mayUse(&n); err != nil {
			t.Fatal(err)
		}
		if gb.adopt(&n); n.Group != "gb" || n.From != "ga" || n.Token > 2 || reads == 0 && n.Released {
			t.Fatalf("read %d: %+v", reads, n)
		}
		n.Token = 2
		if text, err = json.Marshal(n); err != nil {
			t.Fatal(err)
		}
	}
	n, _ := readNote(text, ga, "s", era|8, now)
	if err := ga.mayUse(&n); err == nil || !strings.Contains(err.Error(), "gb has taken durable d over from group ga") {
		t.Errorf("the old group: %v", err)
	} else if !hopeless(err) {
		t.Errorf("Consume would retry by itself after %v", err)
	}
	// Of other groups nothing is taken over.
	gc := &reader{group: "gc", durable: "d", takeover: "ga"}
	if err := gc.mayUse(&n); err == nil || !strings.Contains(err.Error(), "durable d belongs to group gb, and this is group gc") {
		t.Errorf("a group that may take over from ga: %v", err)
	}
}

// TestNoCircleOfTakeovers tells groups to take over from each other in circles of any
// length: each does so at most once.
func TestNoCircleOfTakeovers(t *testing.T) {
	for size := 2; size <= 5; size++ {
		var groups []*reader
		for i := range size {
			groups = append(groups, &reader{group: fmt.Sprint("g", i), durable: "d", takeover: fmt.Sprint("g", (i+1)%size)})
		}
		n, taken := note{Group: "g0"}, 0
		for range 5 {
			for _, r := range groups {
				if r.others(n.Group) && r.mayUse(&n) == nil {
					r.adopt(&n)
					taken++
				}
			}
		}
		if taken != size-1 {
			t.Errorf("%d groups took it over %d times, want %d", size, taken, size-1)
		}
		plain := &reader{group: n.Group, durable: "d"}
		if plain.adopt(&n); n.From != "" {
			t.Errorf("without takeover= group %s remembers %q", n.Group, n.From)
		}
	}
}
