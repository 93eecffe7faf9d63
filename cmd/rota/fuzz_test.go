package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/rota-dev/rota/internal/record"
	"github.com/rota-dev/rota/rotatest"
)

// Whatever others wrote, a command says what it has to say in printable lines.

// FuzzScreens shows people a group whose records say anything that decodes: no
// table, no story, no JSON and no picture of it may fail, or move a cursor.
func FuzzScreens(f *testing.F) {
	for _, n := range []uint64{0, 1, 1<<31 - 1, math.MaxUint32, 1 << 62, math.MaxInt64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64} {
		plan, roster, member, orders, history := screenSeed(n)
		f.Add(plan, roster, member, orders, history)
	}
	f.Fuzz(func(t *testing.T, plan, roster, member, orders, history []byte) {
		if _, err := record.DecodePlan(plan); err != nil {
			return // rota up and rota status have nothing to show
		}
		store := rotatest.NewMemStore()
		session := record.Session(1)
		if m, err := record.DecodeMember(member); err == nil {
			session = m.Session
		}
		for key, value := range map[string][]byte{"plan": plan, "roster": roster, "orders": orders, "history": history, "member/" + session.String(): member} {
			if _, err := store.Put(t.Context(), "g/"+key, value, 0); err != nil {
				t.Fatal(err)
			}
		}
		st, err := rota.Inspect(t.Context(), store, "g")
		if err != nil {
			t.Fatalf("a plan that decodes cannot be shown: %v", err)
		}
		screens(t, &st)
	})
}

// screenSeed is a group of all kinds of records, with one number wherever one fits.
func screenSeed(n uint64) (plan, roster, member, orders, history []byte) {
	short := uint32(min(n, math.MaxUint32))
	encode := func(rec record.Record) []byte {
		b, err := record.Encode(rec)
		if err != nil {
			return nil // a number that is not allowed there
		}
		return b
	}
	token := record.MakeToken(short, max(short, 1))
	gen := max(n, 1)
	plan = encode(&record.Plan{Incarnation: short, Gen: gen, Write: n, Decided: gen, Term: gen, Leader: 1, ID: n, Roster: n, Orders: n, Members: []record.Session{1},
		Kills: []record.Kill{{ID: 0, Count: short, Last: 1}}, Returns: []record.Return{{Name: "c1", Count: short}}, Rows: []record.Row{
			{State: record.Owned, Owner: 1, Token: token, Rev: n}, {State: record.Revoking, Owner: 2, To: 1, Token: token, Rev: n},
			{State: record.Free, To: 1, Token: token, Rev: n}, {State: record.Free, Reason: record.Paused, Token: token}}})
	roster = encode(&record.Roster{Ver: n, Entries: []record.Partition{
		{Name: "a", Meta: []record.Pair{{Key: "k", Value: hostile}}}, {Name: "b\u202e"}, {Name: "c", Removed: true}}})
	member = encode(&record.Member{Session: 1, Lease: 24 * time.Hour, Beat: time.Nanosecond, Seq: n, AckInc: short, AckGen: n, Starting: []record.ID{2}, Bug: n,
		GaveUp: []record.GaveUp{{ID: 1, Token: token, Cause: "line\nline"}}, Load: []record.Load{{ID: 0, Handled: n}}, Name: "c1\u200b", Sent: int64(n),
		Host: record.Host{PID: short, Start: n, Namespace: n}, Labels: []record.Pair{{Key: "l", Value: hostile}}, Conditions: []record.Condition{{Code: "x\u202e", Partition: "a", Text: "it says\u202e so"}}})
	orders = encode(&record.Orders{Ver: n, Pauses: []string{"a"}, Drains: []string{"c1"}, Pins: []record.Pin{{Partition: "a", Member: "c1"}}, Freeze: true,
		Bans: []record.Pin{{Partition: "a", Member: "c9"}}, Release: []record.Release{{Partition: "a", Kills: short}},
		Log: []record.Order{{At: int64(n), Who: "ada", What: "pause a", Why: "why\nThe last order about it: none"}}})
	history = encode(&record.History{Plans: []record.Past{{ID: n, Gen: n, At: int64(n), Causes: []record.Cause{{Why: "died", Members: []string{"c2\u202e"}, More: short}, {Why: "joined"}}, Moves: short, Members: short},
		{ID: n, Gen: 0, At: -int64(n), Causes: []record.Cause{{Why: "x\u202ey"}}}}})
	return plan, roster, member, orders, history
}

// screens shows a group in every way there is.
func screens(t *testing.T, st *rota.Status) {
	now := time.Now()
	var b strings.Builder
	if err := printStatus(&b, &target{group: "g", store: "mem:"}, st, now); err != nil {
		t.Errorf("status: %v", err)
	}
	tame(t, "status", b.String())
	b.Reset()
	if err := printPartitions(&b, st, now, true); err != nil {
		t.Errorf("partitions list: %v", err)
	}
	tame(t, "partitions list", b.String())
	b.Reset()
	if _, err := json.Marshal(inOrder(st)); err != nil {
		t.Errorf("status -o json: %v", err)
	}
	for _, p := range st.Partitions[:min(len(st.Partitions), 20)] {
		text, err := explain(st, p.Name, now)
		if err != nil {
			t.Errorf("explain %q: %v", p.Name, err)
		}
		tame(t, "explain", text)
		shape, err := explainShape(st, p.Name, now)
		if err != nil {
			t.Errorf("explain %q: %v", p.Name, err)
		}
		if _, err := json.Marshal(shape); err != nil {
			t.Errorf("explain %q -o json: %v", p.Name, err)
		}
	}
	v := &live{w: &b, f: &upFlags{dir: "d"}, sup: &supervisor{}, began: now, names: map[string]string{}, work: map[string]*pace{}, shown: map[string]rota.MemberState{}}
	v.see(st)
	v.flush()
	v.see(st)
	v.flush()
	tame(t, "the story of rota up", b.String())
	tame(t, "the picture of rota up", strings.Join(v.picture(), "\n"))
}

// FuzzCheckFile lets rota check judge whole files of anything.
func FuzzCheckFile(f *testing.F) {
	var sound strings.Builder
	for _, l := range tale(f, soundTale) {
		b, err := json.Marshal(l.Line)
		if err != nil {
			f.Fatal(err)
		}
		fmt.Fprintf(&sound, "%s\n", b)
	}
	f.Add([]byte(sound.String()))
	f.Add([]byte(strings.ReplaceAll(sound.String(), `"q0"`, `"q\u001b[2J\u202e"`)))
	f.Add([]byte(strings.ReplaceAll(sound.String(), `"token":"1"`, `"token":"18446744073709551615"`)))
	f.Add([]byte(strings.ReplaceAll(sound.String(), `"boot_ns":`, `"boot_ns":922337203`)))
	f.Add([]byte("{\"v\":2,\"event\":\"\x1b\"}\n\x00\n{}"))
	f.Add([]byte("\n\n\n{\"v\":2"))
	file := filepath.Join(f.TempDir(), "events")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		cmd := checkCmd() // by itself: to make all commands would take most of the time
		cmd.SetOut(&out)
		err := cmd.RunE(cmd, []string{file})
		switch _, broken := errors.AsType[silentExit](err); {
		case err == nil, broken:
			if (err == nil) != strings.Contains(out.String(), "all well") {
				t.Errorf("%v, but it says %q", err, &out)
			}
		case !isUsage(err) || out.Len() > 0:
			t.Errorf("%v, and it says %q", err, &out)
		default:
			tame(t, "a refusal", plain.Lines(err.Error()))
		}
		tame(t, "check", out.String())
	})
}

// FuzzConfigFile reads whole files that --config names: each value is taken by its
// flag or refused in one line that says where it stands.
func FuzzConfigFile(f *testing.F) {
	for _, s := range []string{"lease: 5s\nheartbeat: 2s\n", "lease: 5\n", "lease: \"5s\\e[2J\"\n", "name: !!binary gIGCgw==\n", "group: &a g\nname: *a\n", "label: [a=1, b=2]\n",
		"store: nats://u:pw@h\nsource: \"nats://u:pw@h?\\n\"\n", "\"le\\u202ease\": 5s\n", "shared-folder: perhaps\n", "a: b: c", "{lease: 5s", "--- \n...\n---\nlease: 1s"} {
		f.Add([]byte(s))
	}
	file := filepath.Join(f.TempDir(), "rota.yaml")
	f.Fuzz(func(t *testing.T, b []byte) {
		defer sharedFolder.Store(false)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd, _, err := rootCmd().Find([]string{"run"})
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags([]string{"--config", file}); err != nil {
			t.Fatal(err)
		}
		if err := applySettings(cmd); err != nil {
			if text := err.Error(); !isUsage(err) || strings.Contains(text, "\n") || !strings.HasPrefix(text, file+":") {
				t.Errorf("refused with %q", text)
			}
			tame(t, "a refusal", plain.Lines(err.Error()))
		}
	})
}

// FuzzUpNote reads what a folder says of its rota up: what is no note says nothing,
// and a source that is none is refused.
func FuzzUpNote(f *testing.F) {
	for _, s := range []string{`{"group":"demo","source":"stream=S&subject=demo.*&partitions=3"}`, `{"group":"a\nb","source":"stream=%zz"}`, `{"source":"stream=S&subject=*.*"}`,
		`{"group":1}`, `[]`, ``, `{"source":"creds=/x&stream=\u0000&subject=a.*&partitions=-1"}`, `{"source":"stream=S&subject=a.*&partitions=99999999999999999999"}`} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, upFile), b, 0o600); err != nil {
			t.Fatal(err)
		}
		n := readUpNote(dir)
		if n != (upNote{}) && !json.Valid(b) {
			t.Errorf("%q is read as %+v", b, n)
		}
		if _, err := natsSource("embed:" + dir + "?" + n.Source); err != nil {
			tame(t, "a refusal", plain.Lines(err.Error()))
		}
	})
}

// FuzzBenchReport compares figures that anybody may have edited.
func FuzzBenchReport(f *testing.F) {
	canned := strings.NewReplacer("SYSTEM", "rota", "MEDIAN", "0.2").Replace(cannedRun)
	f.Add([]byte(canned), []byte(strings.Replace(canned, `"rota"`, `"x\u001b[2J\nforged"`, 1)))
	f.Add([]byte(strings.ReplaceAll(canned, "0.2", "1e308")), []byte(strings.ReplaceAll(canned, "5", "-1e308")))
	f.Add([]byte(strings.Replace(canned, `"broken":[]`, `"broken":["\u202e\nforged"]`, 1)), []byte(canned+canned))
	f.Add([]byte(strings.Replace(canned, `"idle_ms":[15]`, `"idle_ms":null,"gap_before":{"-1":9},"gap_during":{"99999999":-9}`, 1)), []byte(`{"runs":[{"at":"9999-12-31T23:59:59Z"}]}`))
	f.Add([]byte(`{}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, ours, theirs []byte) {
		all, err := readBench(fstest.MapFS{"rota-0.json": {Data: ours}, "x-0.json": {Data: theirs}})
		if err != nil {
			tame(t, "a refusal", plain.Lines(err.Error()))
			return
		}
		tame(t, "the comparison", comparison(all))
		var page strings.Builder
		writePerformance(&page, all)
		tame(t, "the page", page.String())
	})
}
