package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"golang.org/x/sys/unix"
)

// A tryout is a member with a command for messages, of which each notes its attempt.
type tryout struct {
	rota    *trial.Process
	t       *testing.T
	js      jetstream.JetStream
	command string
	noted   string
}

func newTryout(t *testing.T) *tryout {
	t.Helper()
	dir := t.TempDir()
	s, err := embedded.Serve("embed:"+filepath.Join(dir, "data"), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	nc, err := rotanats.Connect(s.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}); err != nil {
		t.Fatal(err)
	}
	tr := &tryout{t: t, js: js, command: filepath.Join(dir, "handle"), noted: filepath.Join(dir, "noted")}
	tr.write()
	tr.rota = trial.Start(t, dir, "run", "--group", "g", "--new-group", "--store", s.URL(), "--source", s.URL()+"?stream=S&subject=s.*&partitions=1", "--handle", "exec:"+tr.command)
	tr.publish("first")
	tr.handled("first/1")
	return tr
}

// write puts the command where it is expected.
func (tr *tryout) write() {
	tr.t.Helper()
	script := "#!/bin/sh\nread message\necho $message/$ROTA_ATTEMPT >>" + tr.noted + "\n"
	if err := os.WriteFile(tr.command+".new", []byte(script), 0o700); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.Rename(tr.command+".new", tr.command); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tryout) publish(text string) {
	tr.t.Helper()
	if _, err := tr.js.Publish(tr.t.Context(), "s.0", []byte(text+"\n")); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tryout) handled(line string) {
	tr.t.Helper()
	trial.Until(tr.t, line, func() bool {
		b, _ := os.ReadFile(tr.noted)
		return strings.Contains(string(b), line+"\n")
	})
}

// outlasts waits until a message was found not to be tried so many times.
func (tr *tryout) outlasts(why string, times int) {
	tr.t.Helper()
	trial.Until(tr.t, why, func() bool { return strings.Count(tr.rota.Err.String(), "the message was not tried: "+why) >= times })
	if strings.Contains(tr.rota.Err.String(), "attempt") {
		tr.t.Errorf("it counts as an attempt:\n%s", &tr.rota.Err)
	}
}

// TestNoDescriptorsAreNotTheMessagesFault: while rota has no descriptor left to hand
// a message over with, the message waits; then it has all its attempts.
func TestNoDescriptorsAreNotTheMessagesFault(t *testing.T) {
	t.Parallel()
	tr := newTryout(t)
	var was unix.Rlimit
	if err := unix.Prlimit(tr.rota.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 1024}, &was); err != nil {
		t.Skipf("NOT ALLOWED: the limit cannot be changed: %v", err)
	}
	tr.publish("second")
	tr.outlasts("memory for the message: too many open files", 3)
	if err := unix.Prlimit(tr.rota.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(was.Cur, 1024), Max: 1024}, nil); err != nil {
		t.Fatal(err)
	}
	tr.handled("second/1")
}

// TestACommandThatIsAwayIsNotTheMessagesFault: somebody replaces it, say.
func TestACommandThatIsAwayIsNotTheMessagesFault(t *testing.T) {
	t.Parallel()
	tr := newTryout(t)
	if err := os.Remove(tr.command); err != nil {
		t.Fatal(err)
	}
	tr.publish("second")
	tr.outlasts("start "+tr.command+": no such file or directory", 3) // tried four times by then
	if err := os.WriteFile(tr.command, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tr.outlasts("start "+tr.command+": permission denied", 1)
	tr.write()
	tr.handled("second/1")
}
