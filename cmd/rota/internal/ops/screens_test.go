package ops

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/internal/line"
)

// FuzzScreens shows people a group whose records say anything that decodes: no
// table, no story, no JSON and no picture of it may fail, or move a cursor.
func FuzzScreens(f *testing.F) { trial.FuzzGroups(f, screens) }

// screens shows a group in every way there is.
func screens(t *testing.T, st *rota.Status) {
	now := time.Now()
	var b strings.Builder
	if err := printStatus(&b, &connect.Target{Group: "g", Store: "mem:"}, st, now); err != nil {
		t.Errorf("status: %v", err)
	}
	trial.Tame(t, "status", b.String())
	b.Reset()
	if err := printPartitions(&b, st, now, true); err != nil {
		t.Errorf("partitions list: %v", err)
	}
	trial.Tame(t, "partitions list", b.String())
	b.Reset()
	if err := printTopics(&b, st); err != nil {
		t.Errorf("topics list: %v", err)
	}
	trial.Tame(t, "topics list", b.String())
	b.Reset()
	if _, err := json.Marshal(inOrder(st)); err != nil {
		t.Errorf("status -o json: %v", err)
	}
	names := explainable(st)
	for _, name := range append(names[:min(len(names), 20)], names[max(0, len(names)-20):]...) {
		text, err := explain(st, name, now)
		if err != nil {
			t.Errorf("explain %q: %v", name, err)
		}
		trial.Tame(t, "explain", text)
		shape, err := explainShape(st, name, now)
		if err != nil {
			t.Errorf("explain %q: %v", name, err)
		}
		if _, err := json.Marshal(shape); err != nil {
			t.Errorf("explain %q -o json: %v", name, err)
		}
	}
}

func TestWhatOthersWroteIsTameInTables(t *testing.T) {
	now := time.Now()
	st := trial.HostileStatus(now)
	var b strings.Builder
	if err := printStatus(&b, &connect.Target{Group: trial.Hostile, Store: "nats://h?stream=" + trial.Hostile}, st, now); err != nil {
		t.Fatal(err)
	}
	trial.Tame(t, "status", b.String())
	b.Reset()
	if err := printPartitions(&b, st, now, true); err != nil {
		t.Fatal(err)
	}
	trial.Tame(t, "partitions list", b.String())
	if n := strings.Count(b.String(), "\n"); n != 1+len(st.Partitions) {
		t.Errorf("partitions list: %d lines: %q", n, b.String())
	}
	b.Reset()
	if err := printTopics(&b, st); err != nil {
		t.Fatal(err)
	}
	trial.Tame(t, "topics list", b.String())
	for _, name := range explainable(st) {
		text, err := explain(st, name, now)
		if err != nil {
			t.Fatal(err)
		}
		trial.Tame(t, "explain", text)
		for l := range strings.Lines(text) {
			if strings.HasPrefix(l, "The last order about it: resume") {
				t.Errorf("explain: an order is forged: %q", text)
			}
		}
	}
	if st.Partitions[0].Name != trial.Hostile {
		t.Error("the status itself was changed: JSON shows what is there")
	}
	trial.Tame(t, "an unknown name", cli.Known("partition", partitionNames(st), "x").Error())
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
		add(line.Line{Event: "leader", Member: trial.Hostile, Session: session + trial.Hostile, Term: 1, Boot: 1})
		add(line.Line{Event: "grant", Member: trial.Hostile, Session: session + trial.Hostile, Partition: trial.Hostile, Token: 1, Lease: 1 << 40, Boot: int64(2 + i)})
		add(line.Line{Event: "handle", Member: trial.Hostile, Session: session + trial.Hostile, Partition: trial.Hostile, Token: 9, Message: trial.Hostile + "7", Boot: int64(4 + i)})
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := rotaRuns(t.Context(), "check", file)
	if code != cli.ExitFailed || strings.Count(stdout, "\n") < 4 {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	trial.Tame(t, "check", stdout)
	if err := os.WriteFile(file, append(text, "{\x1b\n{}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, stderr = rotaRuns(t.Context(), "check", file)
	if trial.Tame(t, "check of what is none", stderr); strings.Count(stderr, "\n") != 1 {
		t.Errorf("said %q", stderr)
	}
	_, _, stderr = rotaRuns(t.Context(), "check", file+"\x1b")
	trial.Tame(t, "check of no file", strings.ReplaceAll(stderr, "\nforged", ""))
}

func TestAnOrderIsTame(t *testing.T) {
	var done strings.Builder
	if err := sayDone(&done, "paused q\u202e\x1b[2J"); err != nil {
		t.Fatal(err)
	}
	trial.Tame(t, "an order", done.String())
}
