package rotatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota"
)

// deadCases are the cases for sources whose dead letters can be read.
var deadCases = []sourceCase{
	{"a dead letter is read and dropped", lettersAreRead, nil},
	{"a replayed letter goes when it was handled", replayHandles, nil},
	{"a replayed letter that fails again stays", replayFails, nil},
	{"a replay that is cut short loses nothing", replayIsCut, nil},
}

// letterBox is the source's dead letters. It skips the case if there are none to read.
func (t *sourceTest) letterBox() rota.DeadLetters {
	box, ok := t.broker.Source().(rota.DeadLetters)
	if !ok {
		t.Skip("the dead letters of this source cannot be read")
	}
	return box
}

// letters reads the dead letters of a partition, or all if the name is empty.
func (t *sourceTest) letters(box rota.DeadLetters, partition string) (out []rota.Letter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), t.bound)
	defer cancel()
	for l, err := range box.Letters(ctx, partition) {
		if err != nil {
			t.Fatalf("read the dead letters: %v", err)
		}
		out = append(out, l)
	}
	return out
}

func ids(letters []rota.Letter) (out []string) {
	for _, l := range letters {
		out = append(out, l.ID)
	}
	return out
}

// numbers are the numbers of the messages in letters.
func numbers(letters []rota.Letter) string {
	var out []int
	for _, l := range letters {
		out = append(out, number(&l.Message))
	}
	return fmt.Sprint(out)
}

// replay orders a replay, or takes the order back.
func (t *sourceTest) replay(partition string, ids ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), t.bound)
	defer cancel()
	if err := rota.Replay(ctx, t.store.Open(), t.group, partition, ids...); err != nil {
		t.Fatalf("replay %v of %s: %v", ids, partition, err)
	}
}

// bad finds messages 2 and 4 bad while on is set.
func bad(on *atomic.Bool) handler {
	return func(_ context.Context, _ *testMember, msg rota.Message) error {
		if n := number(&msg); on.Load() && (n == 2 || n == 4) {
			return fmt.Errorf("%w: attempt %d of %d", rota.ErrBad, msg.Attempt, n)
		}
		return nil
	}
}

// buried joins a member that dead-letters messages 2 and 4 of 6 everywhere.
func (t *sourceTest) buried() (box rota.DeadLetters, a *testMember, on *atomic.Bool) {
	t.Helper()
	box, on = t.letterBox(), &atomic.Bool{}
	on.Store(true)
	t.publish(6)
	a = t.join("a", bad(on))
	t.wait("message 6 is handled everywhere", func() bool { return t.reached(6) })
	return box, a, on
}

func lettersAreRead(t *sourceTest) {
	box, a, _ := t.buried()
	a.leave()
	all := t.letters(box, "")
	if len(all) != 2*len(t.sent) {
		t.Errorf("%d dead letters are listed, want %d", len(all), 2*len(t.sent))
	}
	told := map[string]int{}
	for _, e := range a.events {
		if e.Kind == rota.EventDeadLetter {
			told[e.Partition+" "+e.Message]++
		}
	}
	seen := map[string]bool{}
	for p := range t.sent {
		of := t.letters(box, p)
		if got := numbers(of); got != "[2 4]" {
			t.Fatalf("%s: the dead letters are %s, want [2 4]", p, got)
		}
		for _, l := range of {
			n := number(&l.Message)
			if l.ID == "" || len(l.ID) > 64 || strings.ContainsAny(l.ID, " \t\r\n") || seen[l.ID] {
				t.Errorf("%s: a letter has ID %q", p, l.ID)
			}
			seen[l.ID] = true
			if want := fmt.Sprintf("%s %d", p, n); string(l.Message.Value) != want || l.Message.Partition != p {
				t.Errorf("%s: a letter of %q holds %q", p, l.Message.Partition, l.Message.Value)
			}
			if want := fmt.Sprintf("the message is bad: attempt 1 of %d", n); l.Reason != want {
				t.Errorf("%s: letter %d says %q, want %q", p, n, l.Reason, want)
			}
			if l.Group != t.group || l.Message.Attempt != 1 || l.Former != "" {
				t.Errorf("%s: letter %d is of group %q, attempt %d, former %q", p, n, l.Group, l.Message.Attempt, l.Former)
			}
			if age := time.Since(l.Time); age > time.Hour || age < -time.Hour {
				t.Errorf("%s: letter %d is of %v", p, n, l.Time)
			}
			t.sameAsDelivered(&l)
			if told[p+" "+l.Message.ID] != sameID(of, l.Message.ID) {
				t.Errorf("%s: dead letter %d was told %d times", p, n, told[p+" "+l.Message.ID])
			}
		}
	}
	p := t.broker.Partitions()[0]
	of := t.letters(box, p)
	ctx, cancel := context.WithTimeout(context.Background(), t.bound)
	defer cancel()
	if err := box.DropLetter(ctx, of[1].ID); err != nil {
		t.Fatalf("drop letter %s: %v", of[1].ID, err)
	}
	if got := t.letters(box, ""); len(got) != len(all)-1 || slices.Contains(ids(got), of[1].ID) {
		t.Errorf("%d letters were there and letter %s was dropped; left are %q", len(all), of[1].ID, ids(got))
	}
	if err := box.DropLetter(ctx, of[1].ID); !errors.Is(err, rota.ErrNotFound) {
		t.Errorf("a letter was dropped twice: %v, want ErrNotFound", err)
	}
}

// sameID counts the letters about a message with this ID: one, or all that have none.
func sameID(letters []rota.Letter, id string) (n int) {
	for _, l := range letters {
		if l.Message.ID == id {
			n++
		}
	}
	return n
}

// sameAsDelivered compares a letter with the message that the handler got.
func (t *sourceTest) sameAsDelivered(l *rota.Letter) {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.log {
		if string(d.msg.Value) == string(l.Message.Value) && (d.msg.ID != l.Message.ID || d.msg.Position != l.Message.Position || !d.msg.Time.Equal(l.Message.Time)) {
			t.Errorf("%s: the handler got message %q at %d of %v, and the letter is about %q at %d of %v", d.msg.Partition,
				d.msg.ID, d.msg.Position, d.msg.Time, l.Message.ID, l.Message.Position, l.Message.Time)
		}
	}
}

// tried counts the calls of handlers with message n of a partition.
func (t *sourceTest) tried(partition string, n int) (calls int) {
	for _, d := range t.log {
		if d.msg.Partition == partition && number(&d.msg) == n {
			calls++
		}
	}
	return calls
}

// replayHandles replays all letters while messages arrive.
func replayHandles(t *sourceTest) {
	box, a, on := t.buried()
	on.Store(false)
	ebb := t.flow(5, 20*time.Millisecond)
	for p := range t.sent {
		t.replay(p, ids(t.letters(box, p))...)
	}
	t.wait("letters 2 and 4 are handled everywhere", func() bool { return t.reached(2) && t.reached(4) })
	ebb()
	t.wait("all messages are handled", t.all)
	eventually(t, t.bound, "all letters are gone", func() bool { return len(t.letters(box, "")) == 0 })
	a.leave()
	b := t.join("b", quick)
	t.publish(1)
	t.wait("what came later is handled", t.all)
	b.leave()
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := range t.sent {
		for _, n := range []int{2, 4} {
			if calls := t.tried(p, n); calls != 2 {
				t.Errorf("%s: message %d was handled %d times, want twice", p, n, calls)
			}
		}
	}
	for _, d := range t.log {
		if d.msg.Partition == "" || d.msg.Token == 0 || d.msg.Session == "" {
			t.Errorf("message %q was handled without an owner: partition %q, token %d", d.msg.ID, d.msg.Partition, d.msg.Token)
		}
	}
}

// replayFails replays one letter whose message is still bad. The order stands when the
// next owner comes, and must not be carried out again.
func replayFails(t *sourceTest) {
	box, a, _ := t.buried()
	p := t.broker.Partitions()[0]
	was := t.letters(box, p)
	if got := numbers(was); got != "[2 4]" {
		t.Fatalf("the dead letters are %s, want [2 4]", got)
	}
	t.replay(p, was[0].ID)
	var is []rota.Letter
	eventually(t, t.bound, "the letter has failed again", func() bool {
		is = t.letters(box, p)
		return !slices.Contains(ids(is), was[0].ID)
	})
	if got := numbers(is); got != "[4 2]" {
		t.Fatalf("the letters are %s after 2 has failed again, want [4 2]", got)
	}
	if l := is[1]; l.Former != was[0].ID || l.Message.Attempt != 2 || l.Reason != "the message is bad: attempt 2 of 2" || l.Group != t.group {
		t.Errorf("it replaces %q, want %q: attempt %d, %q, group %q", l.Former, was[0].ID, l.Message.Attempt, l.Reason, l.Group)
	}
	t.sameAsDelivered(&is[1])
	a.leave()
	b := t.join("b", quick)
	t.publish(1)
	t.wait("what came later is handled", func() bool { return t.reached(7) })
	b.leave()
	if got := ids(t.letters(box, p)); !slices.Equal(got, ids(is)) {
		t.Errorf("the letters are %q under the next owner, and were %q", got, ids(is))
	}
}

// replayIsCut cuts an owner off from its store while it replays.
func replayIsCut(t *sourceTest) {
	box := t.letterBox()
	var on, hang atomic.Bool
	on.Store(true)
	t.publish(6)
	isBad := bad(&on)
	a := t.join("a", func(ctx context.Context, m *testMember, msg rota.Message) error {
		if hang.Load() && number(&msg) == 2 {
			<-ctx.Done()
			return ctx.Err()
		}
		return isBad(ctx, m, msg)
	})
	t.wait("message 6 is handled everywhere", func() bool { return t.reached(6) })
	p := t.broker.Partitions()[0]
	hang.Store(true)
	t.replay(p, ids(t.letters(box, p))...)
	t.wait("a is at the letter", func() bool { return a.in[p] })
	a.store.Fail()
	a.orphaned()
	if got := numbers(t.letters(box, p)); got != "[2 4]" {
		t.Fatalf("the letters are %s after a replay was cut short, want [2 4]", got)
	}
	b := t.join("b", quick)
	t.wait("b has handled the letters", func() bool {
		good := t.good[p]
		return good[p+" 2"] && good[p+" 4"]
	})
	eventually(t, t.bound, "the letters are gone", func() bool { return len(t.letters(box, p)) == 0 })
	b.leave()
}

func deadLetters(t *sourceTest) {
	t.publish(12)
	poison := func(_ context.Context, _ *testMember, msg rota.Message) error {
		if number(&msg) == 5 || number(&msg) == 6 {
			return errors.New("poison")
		}
		return nil
	}
	a := t.join("a", poison, func(c *rota.Config) { c.Attempts = 2 })
	var want []string
	for p := range t.sent {
		want = append(want, p+" 5", p+" 6")
	}
	slices.Sort(want)
	t.wait("message 12 is handled everywhere", func() bool { return t.reached(12) })
	a.leave()
	var got []string
	eventually(t, t.bound, "all dead letters are there", func() bool {
		dead, err := t.broker.Dead()
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, d := range dead {
			got = append(got, string(d))
		}
		return len(got) >= len(want)
	})
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("dead-lettered were %q, want %q", got, want)
	}
	once := t.triedTwice(want)
	t.publish(1)
	b := t.join("b", quick)
	t.wait("what came later is handled", func() bool { return t.reached(13) })
	b.leave()
	t.inOrder(once)
}

// slowAnswer is what a busy machine makes a broker take for an answer: a source that has given it up
// by then does not know that a dead letter was stored, and the message comes again.
const slowAnswer = time.Second

// triedTwice checks that each message that is dead was tried twice, by each Consume that began with
// it. It tells whether that was one each time; another may have begun after a slow answer only.
func (t *sourceTest) triedTwice(dead []string) (once bool) {
	t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	tries, last := map[string]int{}, map[string]*delivery{}
	once = true
	for i := range t.log {
		d, v := &t.log[i], string(t.log[i].msg.Value)
		if was := last[v]; was != nil && was.call != d.call {
			if took := d.began.Sub(was.began); took < slowAnswer {
				t.Errorf("%q came again after %v", v, took)
			}
			if slices.Contains(dead, v) && tries[v] != 2 {
				t.Errorf("%q was tried %d times, want 2", v, tries[v])
			}
			once, tries[v] = false, 0
		}
		last[v] = d
		if tries[v]++; d.msg.Attempt != tries[v] {
			t.Errorf("%q is attempt %d at try %d", v, d.msg.Attempt, tries[v])
		}
		d.good = true // for inOrder: a dead letter is done too
	}
	for _, v := range dead {
		if tries[v] != 2 {
			t.Errorf("%q was tried %d times, want 2", v, tries[v])
		}
	}
	return once
}
