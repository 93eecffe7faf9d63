package demo

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/screen"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

var update = flag.Bool("update", false, "write the pictures of testdata anew")

// drawn is the picture of a group in which a process is gone and a story is told.
func drawn(members int, trouble bool, now time.Time) *picture {
	v := &live{f: &upFlags{members: members, partitions: 4 * members, rate: 200, dir: "rota-data"}, at: "rota-data/rota.sock", sup: &supervisor{}, screen: true, began: now.Add(-time.Minute), names: map[string]string{},
		work: map[string]*pace{"c3": {n: 100, at: now, rate: 67}}, shown: map[string]rota.MemberState{}, st: trial.Crowd(members, trouble, now)}
	if trouble { // its parent has seen it end
		v.sup.children = []*child{{name: "c2", pid: v.st.Members[1].PID, over: true}}
	}
	for i := range 30 {
		v.print(now.Add(time.Duration(i-40)*time.Second), fmt.Sprintf("c%d runs orders.%d@1 orders.%d@1, and whatever else may stand in a line that is too long for it", i%members+1, i, i+1))
	}
	p := v.picture(now)
	p.hints = []string{"try, in another terminal in this folder:", "  add a member    rota run --quiet --handle none --name c4", "  kill one        kill -9 4711   # c3", "  freeze one      kill -STOP 4711; sleep 8; kill -CONT 4711   # c2",
		"  look            rota status", "  ask             rota explain demo.0", "  judge           rota check rota-data/events.jsonl", "Ctrl-C lets everybody leave"}
	return p
}

// TestUpFitsTheTerminal draws groups of all sizes on terminals of all sizes. The member
// that is gone, the newest of the story and the way out are there.
func TestUpFitsTheTerminal(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, size := range trial.Sizes {
		for _, members := range trial.Crowds {
			for _, trouble := range []bool{false, true} {
				width, height := size[0], size[1]
				lines := screen.Texts(drawn(members, trouble, now).lines(width, height))
				what := fmt.Sprintf("%d members on %d x %d, trouble %v", members, width, height, trouble)
				if len(lines) > height {
					t.Errorf("%s: %d lines", what, len(lines))
				}
				for _, l := range lines {
					if screen.Cells(l) > width {
						t.Errorf("%s: %d cells: %q", what, screen.Cells(l), l)
					}
				}
				if width < 80 {
					continue
				}
				want := []string{"rota up: group demo", "MEMBER", "00:49.000", "try, in another terminal", "Ctrl-C lets everybody leave"}
				if trouble {
					want = []string{"rota up: group demo", "orders.8 waits for its owner to stop (c", "MEMBER", "c2", "gone, dead in 1.2 s", "4 wait for its lease", "00:49.000", "Ctrl-C"}
				}
				trial.In(t, strings.Join(lines, "\n"), want...)
			}
		}
	}
}

// TestPicturesOfUp compares a few pictures with those that people have looked at.
func TestPicturesOfUp(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct{ width, height, members int }{{80, 24, 3}, {80, 24, 20}, {120, 40, 20}, {200, 50, 1000}} {
		text := strings.Join(screen.Texts(drawn(c.members, c.members > 3, now).lines(c.width, c.height)), "\n") + "\n"
		file := filepath.Join("testdata", fmt.Sprintf("up-%dx%d-%d.txt", c.width, c.height, c.members))
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if text != string(want) {
			t.Errorf("%s: run the test with -update and look at it\n%s", file, text)
		}
	}
}

// TestAFrozenMemberHasNoRate: what it last said is not what it does.
func TestAFrozenMemberHasNoRate(t *testing.T) {
	now := time.Now()
	v := &live{f: &upFlags{}, sup: &supervisor{}, work: map[string]*pace{"c1": {n: 100, at: now.Add(-staleRate - time.Second), rate: 67}, "c2": {n: 100, at: now, rate: 67}}, st: trial.Crowd(3, false, now)}
	p := v.picture(now)
	if p.members[0].rate != "-" || p.members[1].rate != "67" {
		t.Errorf("c1, silent for long: %s; c2: %s", p.members[0].rate, p.members[1].rate)
	}
}

// A group that waits for the lease of a member that was killed is not at rest, though it does
// not know yet.
func TestAGroupWithAMemberThatIsGoneIsNotAtRest(t *testing.T) {
	now := time.Now()
	v := &live{f: &upFlags{}, sup: &supervisor{}, work: map[string]*pace{}, st: trial.Crowd(3, false, now)}
	if p := v.picture(now); !strings.HasPrefix(p.state, "at rest; ") {
		t.Errorf("all work: %s", p.state)
	}
	v.sup.children = []*child{{name: "c2", pid: v.st.Members[1].PID, over: true}}
	if p := v.picture(now); !strings.HasPrefix(p.state, "a lease has to end; ") {
		t.Errorf("one is gone: %s", p.state)
	}
}

// TestRecordsOfAnEarlierRunHaveNotJoined: a record says LIVE for ever if its process was
// killed with all others.
func TestRecordsOfAnEarlierRunHaveNotJoined(t *testing.T) {
	now := time.Now()
	var b strings.Builder
	v := &live{w: &b, f: &upFlags{}, sup: &supervisor{}, began: now, names: map[string]string{}, work: map[string]*pace{}, shown: map[string]rota.MemberState{}}
	st := trial.Crowd(3, false, now)
	st.Members[0].Sent = now.Add(-time.Minute)
	st.Members[1].Sent = now.Add(time.Second)
	v.see(st)
	if strings.Contains(b.String(), "c1 has joined") || !strings.Contains(b.String(), "c2 has joined") {
		t.Errorf("told %q", b.String())
	}
	st.Members[0].Sent = now.Add(2 * time.Second)
	v.see(st)
	if !strings.Contains(b.String(), "c1 has joined") {
		t.Errorf("one that lives after all: %q", b.String())
	}
}
