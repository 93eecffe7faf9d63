package rotatest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-dev/rota"
)

// TestHistories judges histories of one cell, one call per line:
//
//	1-4 put a 0>1     called at 1, returned at 4: over revision 0, now at 1
//	5-6 put b 1>!     refused
//	7-  put c 1>?     outcome unknown
//	8-9 get a@1       found; "get -" found nothing
//	10-11 delete 1    "delete 1!" refused, "delete 1?" unknown
func TestHistories(t *testing.T) {
	for _, c := range []struct{ name, history, wrong string }{
		{"one after the other", "1-2 put a 0>1; 3-4 get a@1; 5-6 put b 1>2; 7-8 get b@2; 9-10 put c 1>!; 11-12 delete 2; 13-14 get -", ""},
		{"a read beside a write sees either", "1-2 put a 0>1; 3-10 put b 1>2; 4-5 get a@1; 6-7 get b@2", ""},
		{"created, deleted, created again", "1-2 put a 0>1; 3-4 delete 1; 5-6 put b 0>2; 7-8 get b@2", ""},
		{"two creations at once around a deletion", "1-20 put a 0>1; 2-19 delete 1; 3-18 put b 0>2; 4-17 get -", ""},
		{"an unknown write that nobody saw", "1-2 put a 0>1; 3- put b 1>?; 5-6 put c 1>2", ""},
		{"an unknown write that somebody saw", "1-2 put a 0>1; 3- put b 1>?; 5-6 get a@1; 7-8 get b@7; 9-10 put c 7>8", ""},
		{"an unknown write that lands late", "1-2 put a 0>1; 3- put b 1>?; 5-6 get a@1; 7-8 get a@1; 9-10 get b@2", ""},
		{"an unknown deletion that happened", "1-2 put a 0>1; 3- delete 1?; 5-6 get a@1; 7-8 get -; 9-10 put b 0>2", ""},
		{"an unknown deletion that did not", "1-2 put a 0>1; 3- delete 1?; 5-6 put b 1>2; 7-8 get b@2", ""},
		{"a refusal after an unknown write", "1-2 put a 0>1; 3- put b 1>?; 5-6 put c 1>!", ""},
		{"a creation refused after an unknown one", "1- put a 0>?; 3-4 put b 0>!", ""},
		{"a refusal beside the write that caused it", "1-2 put a 0>1; 3-9 put b 1>2; 4-5 put c 1>!", ""},

		{"a fork", "1-2 put a 0>1; 3-6 put b 1>2; 4-5 put c 1>3", "a fork"},
		{"a fork by an unknown write", "1-2 put a 0>1; 3- put b 1>?; 4-5 put c 1>3; 6-7 get b@2", "a fork"},
		{"a fork by a deletion", "1-2 put a 0>1; 3-6 put b 1>2; 4-5 delete 1", "a fork"},
		{"a lost update", "1-2 put a 0>1; 3-4 put b 1>2; 5-6 get a@1", "out of order"},
		{"a lost update, written over", "1-2 put a 0>1; 3-4 put b 1>2; 5-6 put c 1>3", "a fork"},
		{"a lost creation", "1-2 put a 0>1; 3-4 get -", "neither"},
		{"a lost creation, made again", "1-2 put a 0>1; 3-4 put b 0>2", "neither"},
		{"a lost deletion", "1-2 put a 0>1; 3-4 delete 1; 5-6 get a@1", "out of order"},
		{"a stale read", "1-2 put a 0>1; 3-4 put b 1>2; 5-6 put c 2>3; 7-8 get b@2", "out of order"},
		{"a stale read of an older life", "1-2 put a 0>1; 3-4 delete 1; 5-6 put b 0>2; 7-8 get a@1", "out of order"},
		{"reads that go back", "1-2 put a 0>1; 3-20 put b 1>2; 4-5 get b@2; 6-7 get a@1", "out of order"},
		{"reads that go back to nothing", "1-20 put a 0>1; 4-5 get a@1; 6-7 get -", "neither"},
		{"nothing for a while in between", "1-2 put a 0>1; 3-4 get -; 5-6 get a@1", "neither"},
		{"a read from the future", "1-2 get a@1; 3-4 put a 0>1", "out of order"},
		{"a read of what nobody wrote", "1-2 put a 0>1; 3-4 get x@2", "nobody wrote"},
		{"a read of another value", "1-2 put a 0>1; 3-4 put b 1>2; 5-6 get a@2", "another value"},
		{"a read at another revision", "1-2 put a 0>1; 3-4 get a@7", "another revision"},
		{"a read at two revisions", "1- put a 0>?; 3-4 get a@7; 5-6 get a@8", "another revision"},
		{"a refused write that happened", "1-2 put a 0>1; 3-4 put b 1>!; 5-6 get b@2", "refused write has happened"},
		{"a refusal without a cause", "1-2 put a 0>1; 3-4 put b 1>!; 5-6 get a@1", "nothing had changed"},
		{"a refused deletion without a cause", "1-2 put a 0>1; 3-4 delete 1!; 5-6 get a@1", "nothing had changed"},
		{"a creation refused though there is nothing", "1-2 put a 0>!", "no order"},
		{"a creation refused after a deletion", "1-2 put a 0>1; 3-4 delete 1; 5-6 put b 0>!; 7-8 get -", "no order"},
		{"a creation refused between two lives", "1-2 put a 0>1; 3-4 delete 1; 5-6 put b 0>!; 7-8 put c 0>2", "no order"},
		{"refusals that fit one by one", "1-20 put a 0>1; 2-5 put b 0>!; 6-9 delete 1!; 10-13 get -", "no order"},
		{"a revision given twice", "1-2 put a 0>1; 3-4 delete 1; 5-6 put b 0>1", "one revision"},
		{"revision nothing", "1-2 put a 0>0", "revision 0"},
		{"a write over nothing known", "1-2 put a 5>6", "nobody wrote"},
		{"a circle", "1-2 put a 1>2; 3-4 put b 2>1", "a circle"},
		{"a value written twice", "1-2 put a 0>1; 3-4 put a 1>2", "cannot be judged"},
		{"two lives at once", "1-2 put a 0>1; 3-4 put b 0>2; 5-6 delete 1; 7-8 delete 2", "neither"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := judgeCell(parseHistory(t, c.history))
			switch {
			case err == nil && c.wrong != "":
				t.Errorf("nothing found, want %q", c.wrong)
			case err != nil && (c.wrong == "" || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("found %q, want %q", err, c.wrong)
			}
		})
	}
}

func parseHistory(t *testing.T, text string) (ops []*op) {
	num := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return n
	}
	for line := range strings.SplitSeq(text, ";") {
		f := strings.Fields(line)
		call, ret, _ := strings.Cut(f[0], "-")
		o := &op{verb: verb(f[1]), call: num(call), ret: forever}
		if ret != "" {
			o.ret = num(ret)
		}
		last := f[len(f)-1]
		if text, ok := strings.CutSuffix(last, "!"); ok {
			o.end, last = conflict, text
		} else if text, ok := strings.CutSuffix(last, "?"); ok {
			o.end, last = unknown, text
		}
		switch {
		case o.verb == put:
			prev, rev, _ := strings.Cut(last, ">")
			o.value, o.prev = f[2], rota.Rev(num(prev))
			if o.end == done {
				o.rev = rota.Rev(num(rev))
			}
		case o.verb == del:
			o.prev = rota.Rev(num(last))
		case last == "-":
			o.end = missing
		default:
			value, rev, _ := strings.Cut(last, "@")
			o.value, o.rev = value, rota.Rev(num(rev))
		}
		ops = append(ops, o)
	}
	return ops
}

// TestJudgeAgreesWithBruteForce compares the verdict on small histories, correct and
// tampered ones, with a search through all orders.
func TestJudgeAgreesWithBruteForce(t *testing.T) {
	good, bad := 0, 0
	for seed := range uint64(30_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		ops := randomHistory(r, 2+r.IntN(6))
		if r.IntN(3) > 0 {
			tamper(r, ops)
		}
		err, possible := judgeCell(ops), bruteForce(ops)
		if err != nil && strings.Contains(err.Error(), "cannot be judged") {
			continue
		}
		if (err == nil) != possible {
			slices.SortFunc(ops, func(a, b *op) int { return cmp.Compare(a.call, b.call) })
			t.Fatalf("seed %d: judge says %v, possible is %v:\n%v", seed, err, possible, ops)
		}
		if possible {
			good++
		} else {
			bad++
		}
	}
	if good < 1000 || bad < 1000 {
		t.Errorf("%d good and %d bad histories: too few of a kind to mean anything", good, bad)
	}
}

// randomHistory lets n calls overlap at random on a correct cell.
func randomHistory(r *rand.Rand, n int) []*op {
	var ops []*op
	var rev, cur rota.Rev
	var value string
	seen := []rota.Rev{0}
	for i := range n {
		at := int64(100 * (i + 1))
		o := &op{client: i, call: at - r.Int64N(250), ret: at + r.Int64N(250)}
		prev := cur
		if r.IntN(4) == 0 {
			prev = seen[r.IntN(len(seen))]
		}
		lost := r.IntN(6) == 0
		switch k := r.IntN(10); {
		case k < 5:
			o.verb, o.prev, o.value = put, prev, fmt.Sprint("v", i)
			if prev != cur {
				o.end = conflict
			} else if !lost || r.IntN(2) == 0 {
				rev++
				cur, value = rev, o.value
				o.rev = rev
				seen = append(seen, rev)
			}
		case k < 7:
			o.verb, o.prev = del, max(prev, 1)
			if o.prev != cur {
				o.end = conflict
			} else if !lost || r.IntN(2) == 0 {
				cur, value = 0, ""
			}
		default:
			lost = false
			o.verb, o.rev, o.value = get, cur, value
			if cur == 0 {
				o.end = missing
			}
		}
		if lost {
			o.end, o.rev, o.ret = unknown, 0, forever
		}
		ops = append(ops, o)
	}
	// Instants of a history are all different.
	var times []*int64
	for _, o := range ops {
		times = append(times, &o.call)
		if o.ret != forever {
			times = append(times, &o.ret)
		}
	}
	slices.SortStableFunc(times, func(a, b *int64) int { return cmp.Compare(*a, *b) })
	for i, at := range times {
		*at = int64(i + 1)
	}
	return ops
}

// tamper changes one answer or one instant.
func tamper(r *rand.Rand, ops []*op) {
	o := ops[r.IntN(len(ops))]
	x := ops[r.IntN(len(ops))]
	switch r.IntN(4) {
	case 0: // two calls trade places in time
		o.call, o.ret, x.call, x.ret = x.call, x.ret, o.call, o.ret
		for _, o := range []*op{o, x} {
			if o.end == unknown {
				o.ret = forever
			} else if o.ret == forever {
				o.ret = o.call + 1
			}
		}
	case 1: // a read finds something else
		if o.verb == get && x.verb == put {
			o.rev, o.value, o.end = x.rev, x.value, done
			if o.rev == 0 {
				o.rev = 77
			}
		}
	case 2:
		if o.verb == get {
			o.rev, o.value, o.end = 0, "", missing
		}
	case 3:
		if o.verb != get && x.verb == put && x.rev != 0 {
			o.prev = x.rev
		}
	}
}

// bruteForce tries every order of calls that time allows.
func bruteForce(ops []*op) bool {
	rev := map[string]rota.Rev{} // of writes whose answer nobody heard
	for _, o := range ops {
		if o.verb == get && o.end == done {
			rev[o.value] = o.rev
		}
	}
	var try func(left []*op, cur rota.Rev, value string) bool
	try = func(left []*op, cur rota.Rev, value string) bool {
		open := false
		for i, o := range left {
			open = open || o.end != unknown
			if slices.ContainsFunc(left, func(x *op) bool { return x.ret < o.call }) {
				continue
			}
			nrev, nvalue := cur, value
			switch {
			case o.end == conflict:
				if cur == o.prev {
					continue
				}
			case o.end == missing:
				if cur != 0 {
					continue
				}
			case o.verb == get:
				if cur != o.rev || value != o.value || cur == 0 {
					continue
				}
			case cur != o.prev:
				continue
			case o.verb == del:
				nrev, nvalue = 0, ""
			default:
				nrev, nvalue = o.rev, o.value
				if nrev == 0 {
					if nrev = rev[o.value]; nrev == 0 {
						nrev = rota.Rev(1000 + o.client)
					}
				}
			}
			if try(slices.Concat(left[:i], left[i+1:]), nrev, nvalue) {
				return true
			}
		}
		return !open
	}
	return try(ops, 0, "")
}
