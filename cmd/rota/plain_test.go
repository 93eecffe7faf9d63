package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/line"
)

// hostile is what somebody may write into a record, a message or an answer: it
// sets the title and the clipboard, turns the line around and forges another.
const hostile = "q\x1b]0;x\x07\x1b]52;c;eA==\x07\u202e\u009b2J\nforged line\r\tx"

// tame fails if a text would reach beyond its lines on a terminal.
func tame(t *testing.T, what, text string) {
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

// hostileStatus has hostile text wherever others can write one.
func hostileStatus(now time.Time) *rota.Status {
	const h = hostile
	m := func(session, state string) rota.MemberInfo {
		return rota.MemberInfo{Name: h + session, Session: session + h, State: rota.MemberState(state), Planned: true, Sent: now, Lease: time.Second, Heartbeat: time.Second,
			Labels: map[string]string{h: h}, Conditions: []rota.ConditionInfo{{Code: rota.Condition(h), Text: h}, {Partition: h, Text: h}}}
	}
	return &rota.Status{Group: h, Leader: "1" + h, Hold: true, Members: []rota.MemberInfo{m("1", "LIVE"), m("2", "EVICTED"), m("3", "LEFT"), m("4", h)},
		Partitions: []rota.PartitionInfo{
			{Name: h, State: "OWNED", Owner: "1" + h, Since: now, Causes: []rota.Cause{{Why: rota.WhyDied, Members: []string{h}}}, Meta: rota.Meta{h: h}},
			{Name: "2" + h, State: "REVOKING", Owner: "2" + h, To: "1" + h, Causes: []rota.Cause{{Why: rota.Why(h)}}},
			{Name: "3" + h, State: "FREE", Reason: h}, {Name: "4" + h, State: h, Owner: "3" + h}, {Name: "plain", State: "FREE", To: h}},
		Waits: []rota.Wait{{Partition: "2" + h, For: h, Member: "2" + h}, {Partition: "plain", For: h, Member: h}},
		Orders: rota.OrdersInfo{Freeze: true, Paused: []string{h}, Drains: []string{h}, Pins: map[string]string{h: h, "plain": h}, Bans: map[string][]string{h: {h}, "plain": {h}},
			Log: []rota.OrderInfo{{Time: now, Who: h, What: "pause plain", Why: "\nThe last order about it: resume b, by root@prod" + h}}},
		History: []rota.PlanInfo{{Time: now, Causes: []rota.Cause{{Why: rota.Why(h)}}}}}
}

func TestWhatOthersWroteIsTameInTables(t *testing.T) {
	now := time.Now()
	st := hostileStatus(now)
	var b strings.Builder
	if err := printStatus(&b, &target{group: hostile, store: "nats://h?stream=" + hostile}, st, now); err != nil {
		t.Fatal(err)
	}
	tame(t, "status", b.String())
	b.Reset()
	if err := printPartitions(&b, st, now, true); err != nil {
		t.Fatal(err)
	}
	tame(t, "partitions list", b.String())
	if n := strings.Count(b.String(), "\n"); n != 1+len(st.Partitions) {
		t.Errorf("partitions list: %d lines: %q", n, b.String())
	}
	for _, p := range st.Partitions {
		text, err := explain(st, p.Name, now)
		if err != nil {
			t.Fatal(err)
		}
		tame(t, "explain", text)
		for l := range strings.Lines(text) {
			if strings.HasPrefix(l, "The last order about it: resume") {
				t.Errorf("explain: an order is forged: %q", text)
			}
		}
	}
	if st.Partitions[0].Name != hostile {
		t.Error("the status itself was changed: JSON shows what is there")
	}
	tame(t, "an unknown name", known("partition", partitionNames(st), "x").Error())
}

func TestWhatOthersWroteIsTameInWords(t *testing.T) {
	for _, event := range []string{"joined", "leader", "plan", "start", "stop", "stopped", "lapsed", "dead", "evicted", "fenced", "store_lost", "condition", "error", "missed", "gone"} {
		l := line.Line{Event: event, Member: hostile, Session: hostile, Partition: hostile, Because: hostile, About: hostile, Message: hostile}
		text := l.Say(func(s string) string { return "session " + s })
		if tame(t, event, text); text == "" || strings.Contains(text, "\n") {
			t.Errorf("%s: %q", event, text)
		}
	}
	var out lockedBuffer
	s := line.NewSpeaker(&out, false)
	s.Take(rota.Event{Kind: rota.EventCondition, Member: hostile, Because: hostile})
	s.Close()
	s.Take(rota.Event{Kind: rota.EventCondition}) // too late, and no panic
	tame(t, "the speaker", out.String())
	h := &hand{out: &out}
	if err := h.log(t.Context(), rota.Message{Partition: hostile, ID: hostile}); err != nil {
		t.Fatal(err)
	}
	if tame(t, "--handle log", out.String()); strings.Count(out.String(), "\n") != 2 {
		t.Errorf("wrote %q", &out)
	}
	tame(t, "an escape", escapeWords(hostile, 1, hostile))
}

func TestWhatOthersWroteIsTameInChecks(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "e\x1b[2J\nforged")
	var text []byte
	add := func(l line.Line) {
		l.V, l.T = line.Version, time.Now()
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, b...), '\n')
	}
	for i, session := range []string{"1", "2"} {
		add(line.Line{Event: "leader", Member: hostile, Session: session + hostile, Term: 1, Boot: 1})
		add(line.Line{Event: "grant", Member: hostile, Session: session + hostile, Partition: hostile, Token: 1, Lease: 1 << 40, Boot: int64(2 + i)})
		add(line.Line{Event: "handle", Member: hostile, Session: session + hostile, Partition: hostile, Token: 9, Message: hostile + "7", Boot: int64(4 + i)})
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := rotaRuns(t.Context(), "check", file)
	if code != exitFailed || strings.Count(stdout, "\n") < 4 {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	tame(t, "check", stdout)
	if err := os.WriteFile(file, append(text, "{\x1b\n{}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, stderr = rotaRuns(t.Context(), "check", file)
	if tame(t, "check of what is none", stderr); strings.Count(stderr, "\n") != 1 {
		t.Errorf("said %q", stderr)
	}
	_, _, stderr = rotaRuns(t.Context(), "check", file+"\x1b")
	tame(t, "check of no file", strings.ReplaceAll(stderr, "\nforged", ""))
}

// A scenario file may be anybody's, as part of a report of a bug.
func TestWhatOthersWroteIsTameInStories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s\x1b[2J.txt")
	text := "group partitions=2\njoin c\x1b]0;x\x07\u202e1\nsettle\n----\nseen\u009b2J by nobody\x1b[2J\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := rotaRuns(t.Context(), "sim", "--replay", file)
	if code != exitFailed || !strings.Contains(stdout, "missing:") || strings.Count(stdout, "]0;x") < 2 {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	tame(t, "sim --replay", stdout+stderr)
	if err := os.WriteFile(file, []byte("\x1b[2J c1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, stderr = rotaRuns(t.Context(), "sim", "--replay", file)
	tame(t, "a scenario that is none", stderr)
	var done strings.Builder
	if err := sayDone(&done, "paused q\u202e\x1b[2J", &rota.Status{}); err != nil {
		t.Fatal(err)
	}
	tame(t, "an order", done.String())
}

// answering is a server that says this to every request, and nothing more.
func answering(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() {
				bufio.NewReader(c).ReadString('\n')
				fmt.Fprint(c, answer)
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

func TestAServersStatusTextIsTame(t *testing.T) {
	h := &hand{deed: deed{kind: "http", url: answering(t, "HTTP/1.1 500 \x1b]0;x\x07\u202e\r\nContent-Length: 0\r\n\r\n")}}
	err := h.handle()(t.Context(), rota.Message{ID: hostile, Partition: hostile})
	if err == nil {
		t.Fatal("settled")
	}
	tame(t, "post", err.Error())
}

// A server that says 200 and never sends the body it promised has settled the
// message, and holds up nobody.
func TestABodyThatNeverComesHoldsUpNobody(t *testing.T) {
	for status, well := range map[string]bool{"200 OK": true, "500 No": false} {
		h := &hand{deed: deed{kind: "http", url: answering(t, "HTTP/1.1 "+status+"\r\nContent-Length: 10\r\n\r\n")}}
		done := make(chan error, 1)
		go func() { done <- h.handle()(t.Context(), rota.Message{ID: "1"}) }()
		select {
		case err := <-done:
			if (err == nil) != well {
				t.Errorf("%s: %v", status, err)
			}
		case <-time.After(patience):
			t.Errorf("%s: the handler had not returned after %v", status, patience)
		}
	}
}
