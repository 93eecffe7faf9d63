package ops

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/plain"
)

// tale makes event lines of a terse story: "at event member partition@token
// lease", times in ms; a dash leaves something out.
func tale(t testing.TB, story string) []Line {
	t.Helper()
	var out []Line
	for text := range strings.Lines(story) {
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		num := func(s string) (n int64) {
			if err := json.Unmarshal([]byte(s), &n); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			return n
		}
		l := line.Line{V: line.Version, Boot: num(f[0]) * 1e6, Event: f[1], Group: "g", Member: f[2], Session: "session-" + f[2]}
		if len(f) > 3 && f[3] != "-" {
			part, token, _ := strings.Cut(f[3], "@")
			l.Partition, l.Token = part, uint64(num(token))
		}
		if len(f) > 4 && f[4] != "-" {
			l.Lease = num(f[4]) * 1e6
		}
		if len(f) > 5 && l.Event == "leader" {
			l.Term = uint64(num(f[5]))
		} else if len(f) > 5 {
			l.Message = f[5]
		}
		out = append(out, Line{l, "tale", len(out) + 1})
	}
	return out
}

const soundTale = `
	0     joined  c1 -     5000
	10    leader  c1 -     5000 1
	100   grant   c1 q0@1  5000
	101   start   c1 q0@1  5000
	200   handle  c1 q0@1  5000 1
	2000  lease   c1 -     7000
	2100  handle  c1 q0@1  7000 2
	2200  settled c1 q0@1  7000
	3000  stop    c1 q0@1  7000
	3010  stopped c1 q0@1  7000
	3020  grant   c2 q0@2  8000
	3021  handle  c2 q0@2  8000 3
	9000  stopped c2 q0@2  13000
`

func TestASoundHistoryIsAllWell(t *testing.T) {
	v := JudgeLines(tale(t, soundTale))
	if len(v.Wrong) > 0 || v.Owned != 2 || v.messages != 3 || v.open != 0 {
		t.Errorf("%+v", v)
	}
}

func TestWhatComesAgainIsInOrder(t *testing.T) {
	v := JudgeLines(tale(t, `
		100  grant   c1 q0@1 5000
		200  handle  c1 q0@1 5000 S-1
		300  handle  c1 q0@1 5000 S-2
		400  handle  c1 q0@1 5000 S-1
		500  handle  c1 q0@1 5000 S-2
		600  handle  c1 q0@1 5000 S-3`))
	if len(v.Wrong) > 0 {
		t.Error(v.Wrong)
	}
}

// A frozen member says late that it stopped; its lease was over long before.
func TestALateStopAfterTheLeaseIsAllWell(t *testing.T) {
	v := JudgeLines(tale(t, `
		100   grant   c1 q0@1 5000
		5300  grant   c2 q0@2 10000
		5400  handle  c2 q0@2 10000 1
		9000  stopped c1 q0@1 5000
		9100  stopped c2 q0@2 10000`))
	if len(v.Wrong) > 0 {
		t.Error(v.Wrong)
	}
}

// Each broken history differs from a sound one in one thing.
func TestBrokenHistoriesAreCaught(t *testing.T) {
	for name, c := range map[string]struct{ story, says string }{
		"two owners at once": {`
			100  grant   c1 q0@1 5000
			3000 grant   c2 q0@2 8000
			3010 stopped c1 q0@1 8000`, "q0 is granted while c1 (session-c1) runs it with a valid lease"},
		"granted before the lease of a killed owner ended": {`
			100  grant   c1 q0@1 5000
			4900 grant   c2 q0@2 8000`, "q0 is granted while c1"},
		"a lease renewed meanwhile": {`
			100  grant   c1 q0@1 5000
			4000 lease   c1 -    9000
			5300 grant   c2 q0@2 10000`, "q0 is granted while c1"},
		"a token that does not grow": {`
			100  grant   c1 q0@2 5000
			200  stopped c1 q0@2 5000
			300  grant   c2 q0@1 5000`, "q0 is granted as @"},
		"one token, two sessions": {`
			100  grant   c1 q0@1 5000
			200  stopped c1 q0@1 5000
			300  grant   c2 q0@1 5000`, "q0@1 is granted to c2, and was granted to session session-c1"},
		"two starts of one grant": {`
			100  grant   c1 q0@1 5000
			200  stopped c1 q0@1 5000
			300  grant   c1 q0@1 5000`, "starts q0@"},
		"handled after the lease": {`
			100  grant   c1 q0@1 5000
			5100 handle  c1 q0@1 5000 1`, "begins an effect on q0@"},
		"settled after the lease": {`
			100  grant   c1 q0@1 5000
			5100 settled c1 q0@1 5000`, "begins an effect on q0@"},
		"handled without a grant": {`
			100  grant   c1 q0@1 5000
			200  handle  c1 q0@7 5000 1`, "which was never granted to it"},
		"out of order": {`
			100  grant   c1 q0@1 5000
			200  handle  c1 q0@1 5000 ORDERS-10
			300  handle  c1 q0@1 5000 ORDERS-9`, "handles message ORDERS-9 of q0@1 after one numbered 10"},
		"two leaders, one term": {`
			100  leader  c1 -    5000 3
			200  leader  c2 -    5000 3`, "c2 leads in term 3, as c1 does (tale:1)"},
		"a sink that takes an old token": {`
			100  accept  c2 q0@2 -
			200  accept  c1 q0@1 -`, "the sink accepted q0@"},
	} {
		v := JudgeLines(tale(t, c.story))
		if len(v.Wrong) == 0 || !strings.Contains(v.Wrong[0], c.says) || !strings.HasPrefix(v.Wrong[0], "tale:") {
			t.Errorf("%s: found %q, want %q", name, v.Wrong, c.says)
		}
	}
}

func TestCheckExitsByItsVerdict(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, lines []Line, tail string) string {
		var b strings.Builder
		for _, l := range lines {
			text, _ := json.Marshal(l.Line)
			b.Write(append(text, '\n'))
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(b.String()+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good", tale(t, soundTale), "")
	cut := write("cut", tale(t, soundTale), `{"v":2,"t":"2026-`)
	bad := write("bad", tale(t, "100 grant c1 q0@1 5000\n4900 grant c2 q0@2 8000"), "")
	past := write("past", nil, `{"v":1,"event":"grant","session":"s","partition":"p0","token":1927066583499276289}`+"\n")
	future := write("future", nil, `{"v":3,"event":"grant"}`+"\n")
	prose := write("prose", nil, "hello\n")
	there := write("there", nil, `{"v":2,"event":"joined","boot_id":"a"}`+"\n"+`{"v":2,"event":"joined"}`+"\n"+`{"v":2,"event":"joined","boot_id":"b"}`+"\n")
	for _, c := range []struct {
		file string
		code int
		says string
	}{
		{good, 0, "1 file, 13 lines, all well: 2 ownerships of 1 partition by 2 sessions, 3 messages handled\n"},
		{cut, 0, "all well"},
		{bad, cli.ExitFailed, "broken promise"},
		{past, cli.ExitUsage, past + ":1: an event line of version 1, which an older rota wrote; this one knows version 2: judge the file with the rota that wrote it, or move it away and let members begin a new one"},
		{future, cli.ExitUsage, future + ":1: an event line of version 3, which a newer rota wrote; this one knows version 2: use the newer one"},
		{there, cli.ExitUsage, there + ":1 and " + there + ":3 come from two machines"},
		{prose, cli.ExitUsage, prose + ":1: not an event line"},
		{filepath.Join(dir, "none"), cli.ExitUsage, "no such file"},
	} {
		code, stdout, stderr := rotaRuns(t.Context(), "check", c.file)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) || (code == cli.ExitUsage) != (stderr != "") {
			t.Errorf("rota check %s: exit %d, %q, %q", filepath.Base(c.file), code, stdout, stderr)
		}
	}
}

func FuzzEventLine(f *testing.F) {
	f.Add([]byte(`{"v":2,"t":"2026-11-15T05:30:14.27989961Z","boot_ns":1,"event":"grant","group":"g","member":"c1","session":"4a","partition":"p0","token":"3","lease_ns":9}`))
	f.Add([]byte(`{"v":2,"event":"stopped","session":"4a","partition":"p0","token":"18446744073709551615","boot_ns":9223372036854775807}`))
	f.Add([]byte(`{"v":2,"event":"handle","session":"","partition":"p0","token":"1"}`))
	f.Add([]byte(`{"v":2,"event":"accept","session":"s","partition":"p0","token":"1","message":"99999999999999999999999"}`))
	f.Add([]byte(`{"v":1,"event":"grant","session":"s","partition":"p0","token":1}`))
	f.Add([]byte(`{"v":2,"event":"grant","session":"s","partition":"p0","token":1}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := line.Parse(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(l)
		if err != nil {
			t.Fatalf("decoded but not encoded: %v", err)
		}
		if same, err := line.Parse(again); err != nil || same.Token != l.Token {
			t.Fatalf("its own encoding is refused, or another token: %v\n%s", err, again)
		}
		// Whatever was decoded can be judged, twice and beside a sound one.
		JudgeLines([]Line{{l, "f", 1}, {l, "f", 2}})
		JudgeLines(append(tale(t, soundTale), Line{l, "f", 1}))
	})
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
		cmd := CheckCmd() // by itself: to make all commands would take most of the time
		cmd.SetOut(&out)
		err := cmd.RunE(cmd, []string{file})
		switch _, broken := cli.ExitCode(err, true); {
		case err == nil, broken:
			if (err == nil) != strings.Contains(out.String(), "all well") {
				t.Errorf("%v, but it says %q", err, &out)
			}
		case !cli.IsUsage(err) || out.Len() > 0:
			t.Errorf("%v, and it says %q", err, &out)
		default:
			trial.Tame(t, "a refusal", plain.Lines(err.Error()))
		}
		trial.Tame(t, "check", out.String())
	})
}
