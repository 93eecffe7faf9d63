package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUpSaysWhatItIs(t *testing.T) {
	code, stdout, stderr := invoke(t.Context(), "up --for 100ms")
	first, _, _ := strings.Cut(stdout, "\n")
	if want := "rota up: today this runs 3 members in this one process, on a store and queues in memory;"; code != 0 || stderr != "" || first != want {
		t.Errorf("exit %d, stderr %q, first line %q, want %q", code, stderr, first, want)
	}
	if !strings.HasSuffix(stdout, "-- all left\n") {
		t.Errorf("did not end in good order:\n%s", stdout)
	}
}

// watch shows a whole show, without waiting for it.
func watch(t *testing.T, members, partitions int, length time.Duration, typed ...string) string {
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		lines := make(chan string)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for _, line := range typed {
				time.Sleep(503 * time.Millisecond) // never at the instant of a tick
				lines <- line
			}
			if length == 0 {
				cancel()
			}
		}()
		if err := newShow(&out, members, partitions).run(ctx, lines, length); err != nil {
			t.Errorf("%v after\n%s", err, &out)
		}
		cancel()
	})
	return out.String()
}

// in asks that all of want stand in got, in that order.
func in(t *testing.T, got string, want ...string) {
	t.Helper()
	rest := got
	for _, w := range want {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Errorf("no %q, or not in its place, in\n%s", w, got)
			return
		}
		rest = after
	}
}

func TestUpShowsJoinKillCutAndHeal(t *testing.T) {
	in(t, watch(t, 3, 6, 36*time.Second),
		"0.000s  -- in 5 s c4 joins\n",
		"  c1 leads\n", "  c1 starts q0@1 q1@1\n",
		"5.000s  -- c4 starts\n", "5.000s  -- in 5 s c1 is killed", "  c4 starts ",
		"10.000s  c1 is killed\n", "10.000s  -- in 10 s ", " declares c1 dead\n", " leads\n",
		"15.000s  -- now  ",
		"20.000s  -- c3 is cut off from the store", "20.000s  -- in 8 s c3 is healed\n", "  c3 stops ", " declares c3 dead\n",
		"28.000s  -- c3 reaches the store again\n", "  c3 ends: fenced (",
		"33.000s  -- c3 starts again", "33.000s  -- nothing else is planned\n",
		"35.000s  -- now  ",
		"36.000s  -- everybody leaves\n", " is leaving\n", " ends: left\n", "-- all left\n")
}

func TestUpOfOneMember(t *testing.T) {
	in(t, watch(t, 1, 2, 34*time.Second),
		"-- starting c1\n", "10.000s  c1 is killed\n", "  c2 leads\n", "-- c2 is cut off", "  c2 pauses: no lease (",
		"-- c2 reaches the store again\n", "  c2 resumes", "-- all left\n")
}

func TestUpOfManyKeepsItsLinesShort(t *testing.T) {
	got := watch(t, 64, 1024, 6*time.Second)
	in(t, got, "-- now  c1 leads; 64 members run 1,024 of 1,024 partitions\n", "-- c65 starts\n", "-- all left\n")
	for line := range strings.Lines(got) {
		if len(line) > wide+40 {
			t.Errorf("too long: %q", line)
		}
	}
}

func TestUpObeysWhatIsTyped(t *testing.T) {
	in(t, watch(t, 2, 4, 0,
		"who", "join bob", "join bob", "join a/b", "cut c2", "cut c2", "heal c2", "heal c2", "kill c9", "kill", "leave bob", "",
		"dance", "help", "who is it", "kill c2", "who"),
		"0.500s  -- c1 leads: q0@1 q1@1\n", "0.500s  -- c2: q2@1 q3@1\n",
		"-- bob starts\n", "  bob starts ", "-- bob is up already\n",
		`-- "a/b" cannot be a name: use up to 32 letters, digits, - and _`,
		"-- c2 is cut off from the store", "-- c2 is cut off already\n", "-- c2 reaches the store again\n", "-- c2 is not cut off\n",
		"-- no member called c9 is up; up: c1 c2 bob\n",
		"-- kill wants one name, such as: kill c1\n",
		"-- bob is asked to leave\n", "  bob ends: left\n",
		`-- there is no command "dance"; there are join, `,
		"join NAME   start a member",
		`-- who stands alone, without "is it"`,
		"  c2 is killed\n",
		"-- everybody leaves\n", "-- all left\n")
}

func TestUpQuitsOnRequest(t *testing.T) {
	in(t, watch(t, 2, 4, time.Hour, "kill c1", "kill c2", "who", "quit"),
		"-- nobody is up\n", "-- everybody leaves\n", "-- all left\n")
}

func TestUpLetsACutOffMemberGo(t *testing.T) {
	in(t, watch(t, 3, 6, 0, "cut c2"), "-- c2 is cut off", "-- everybody leaves\n", "  c2 ends: left\n", "-- all left\n")
}
