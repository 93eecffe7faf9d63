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
		Former: consumerName(durable, short, era|5), Coming: consumerName(durable, short, era|7), Released: true, Next: 3, Each: time.Second}
	text, err := json.Marshal(honest)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, uint64(era|7))
	f.Add(text, uint64(era|1))
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
			Coming: consumerName(durable, "s", era|7), Stray: consumerName(durable, "s", era|7), Released: true, Next: 3, Each: time.Second}
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
