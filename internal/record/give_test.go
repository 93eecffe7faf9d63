package record

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestGive(t *testing.T) {
	given := func(lines ...string) (x Orders) {
		t.Helper()
		for _, l := range lines {
			words := strings.Fields(l)
			if _, err := x.Give(words[0], words[1:]...); err != nil {
				t.Fatal(err)
			}
		}
		return x
	}
	for _, c := range []struct {
		given, order string
		want         Orders
	}{
		{"", "pause q2 q1 q2", Orders{Pauses: []string{"q1", "q2"}}},
		{"pause q1 q2 q3", "resume q3 q1", Orders{Pauses: []string{"q2"}}},
		{"drain c2", "drain c1", Orders{Drains: []string{"c1", "c2"}}},
		{"drain c2", "undrain c2", Orders{}},
		{"", "freeze", Orders{Freeze: true}},
		{"freeze", "thaw", Orders{}},
		{"remove q1 q2", "add q1", Orders{Add: []string{"q1"}, Remove: []string{"q2"}}},
		{"add q1 q2", "remove q1", Orders{Add: []string{"q2"}, Remove: []string{"q1"}}},
		{"pin q2 c1", "pin q1 c2", Orders{Pins: []Pin{{"q1", "c2"}, {"q2", "c1"}}}},
		{"pin q1 c1", "pin q1 c2", Orders{Pins: []Pin{{"q1", "c2"}}}},
		{"pin x c1", "pin q1 x", Orders{Pins: []Pin{{"q1", "x"}, {"x", "c1"}}}},
		{"pin q1 c1", "unpin q1 q2", Orders{}},
		{"ban q1 c2", "ban q1 c3 c1", Orders{Bans: []Pin{{"q1", "c1"}, {"q1", "c2"}, {"q1", "c3"}}}},
		{"ban q1 c1 c2", "unban q1 c1", Orders{Bans: []Pin{{"q1", "c2"}}}},
		{"ban q1 c1 c2", "unban q1", Orders{}},
		{"set q2 a=1", "set q1 b=2 a=x=y", Orders{Meta: []Meta{{"q1", []Pair{{"a", "x=y"}, {"b", "2"}}}, {"q2", []Pair{{"a", "1"}}}}}},
		{"set q1 a=1 b=2", "set q1 a= b=3", Orders{Meta: []Meta{{"q1", []Pair{{"b", "3"}}}}}},
		{"set q1 a=1", "set q1 a=", Orders{}},
		{"set-topic t a=1", "set-topic s b=2", Orders{Topics: []Topic{{"s", []Pair{{"b", "2"}}}, {"t", []Pair{{"a", "1"}}}}}},
		{"set-topic t a=1 b=2", "set-topic t a= b=3", Orders{Topics: []Topic{{"t", []Pair{{"b", "3"}}}}}},
		{"set-topic t a=1", "set-topic t a=", Orders{}},
	} {
		var x Orders
		if c.given != "" {
			x = given(c.given)
		}
		before := x
		kept := x.Append(nil)
		words := strings.Fields(c.order)
		changed, err := x.Give(words[0], words[1:]...)
		if err != nil || !changed {
			t.Errorf("%s, then %s: changed %v, %v", c.given, c.order, changed, err)
		}
		if !slices.Equal(x.Append(nil), c.want.Append(nil)) {
			t.Errorf("%s, then %s: %+v, want %+v", c.given, c.order, x, c.want)
		}
		if !slices.Equal(before.Append(nil), kept) {
			t.Errorf("%s, then %s: wrote to what was there before", c.given, c.order)
		}
		if changed, err := x.Give(words[0], words[1:]...); changed || err != nil {
			t.Errorf("%s, then %s twice: changed %v, %v", c.given, c.order, changed, err)
		}
	}
}

func TestGiveRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"halt q1":        `unknown order "halt"; there are add, ban, drain`,
		"pause":          "pause takes partitions",
		"pin q1":         `pin takes a partition and a member, not ["q1"]`,
		"pin q1 c1 c2":   "pin takes a partition and a member",
		"ban q1":         "ban takes a partition and members",
		"freeze q1":      "freeze takes no arguments",
		"set q1":         "set takes a partition and KEY=VALUE",
		"set q1 a=1 b":   `set q1: "b": want KEY=VALUE`,
		"set q1 =1":      `set q1: "=1": want KEY=VALUE`,
		"set-topic t":    "set-topic takes a topic and KEY=VALUE",
		"set-topic t x":  `set-topic t: "x": want KEY=VALUE`,
		"unban":          "unban takes",
		"partitions add": "unknown order",
	} {
		x, words := Orders{Pauses: []string{"q9"}}, strings.Fields(line)
		changed, err := x.Give(words[0], words[1:]...)
		if err == nil || changed || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: changed %v, %v, want %q", line, changed, err, want)
		}
		if !reflect.DeepEqual(x, Orders{Pauses: []string{"q9"}}) {
			t.Errorf("%s: refused, and yet %+v", line, x)
		}
	}
}

// Any sequence of orders gives a record that can be written and read back.
func TestWhatIsGivenIsValid(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all, names := slices.Sorted(maps.Keys(verbs)), strings.Fields("a b c d e")
	x := Orders{Ver: 1}
	for range 5000 {
		verb := all[r.IntN(len(all))]
		var args []string
		for range min(verbs[verb].most, verbs[verb].least+r.IntN(2)) {
			args = append(args, names[r.IntN(len(names))])
		}
		if strings.HasPrefix(verb, "set") {
			for i := range args[1:] {
				args[i+1] += "=" + strings.Repeat("v", r.IntN(3))
			}
		}
		if verb == "release" {
			args[1] = strconv.Itoa(r.IntN(9))
		}
		if _, err := x.Give(verb, args...); err != nil {
			t.Fatal(err)
		}
		b, err := Encode(&x)
		if err != nil {
			t.Fatalf("after %s %q: %v", verb, args, err)
		}
		if _, err := DecodeOrders(b); err != nil {
			t.Fatalf("after %s %q: %v", verb, args, err)
		}
	}
}
