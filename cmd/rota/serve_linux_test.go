package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// TestServeEndsWhenItsFolderIsTakenAway: rota serve and rota up end and say why, so
// that no second group lives in a new folder at the same place for long.
func TestServeEndsWhenItsFolderIsTakenAway(t *testing.T) {
	for _, verb := range [][]string{{"serve"}, {"up", "--members", "1"}} {
		t.Run(verb[0], func(t *testing.T) {
			dir := t.TempDir()
			data := filepath.Join(dir, connect.DefaultDir)
			p := trial.Start(t, dir, append(verb, "--dir", data)...)
			trial.Until(t, "the server", func() bool { return strings.Contains(p.Out.String(), data) })
			if err := os.Rename(data, data+".old"); err != nil {
				t.Fatal(err)
			}
			if code, said := p.Code(), p.Err.String(); code == 0 || !strings.Contains(said, data+" was removed or replaced while it was in use: end all processes") {
				t.Errorf("exit %d, %q", code, said)
			}
		})
	}
}

// TestPreparedFolderIsRefused: another user has made rota-data in a place where
// everybody may, with links to files of ours and the address of a server of its own.
// No command writes through the links, or connects there.
func TestPreparedFolderIsRefused(t *testing.T) {
	dir := t.TempDir()
	data, victim := filepath.Join(dir, connect.DefaultDir), filepath.Join(dir, "victim")
	file := func(name string) string { return filepath.Join(data, name) }
	trap, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer trap.Close()
	came := make(chan struct{}, 100)
	go func() {
		for {
			c, err := trap.Accept()
			if err != nil {
				return
			}
			came <- struct{}{}
			c.Close()
		}
	}()
	for _, err := range []error{
		os.Mkdir(data, 0o777), os.Chmod(data, 0o777), os.WriteFile(victim, []byte("precious"), 0o600),
		os.WriteFile(file("rota.lock"), nil, 0o666), os.Symlink(victim, file("events.jsonl")), os.Symlink(victim, file("rota.address.new")),
		os.WriteFile(file("rota.address"), fmt.Appendf(nil, `{"address":%q,"token":"x"}`, trap.Addr()), 0o644),
		os.WriteFile(file("rota.up"), []byte(`{"group":"g","source":"stream=S&subject=s.*"}`), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(data, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Log("NOT ALLOWED: only root can give the folder to another user; its mode has to do")
	}
	for _, args := range [][]string{{"up", "--for", "1s"}, {"serve"}, {"status"}, {"pause", "p"}, {"run", "--handle", "log"},
		{"status", "--group", "g", "--store", "embed:" + data}} {
		p := trial.Start(t, dir, args...)
		if code, said := p.Code(), p.Err.String(); code == 0 || !strings.Contains(said, "is not safe to use") || !strings.Contains(said, "--shared-folder") {
			t.Errorf("rota %s: exit %d, %q", strings.Join(args, " "), code, said)
		}
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("the file that links lead to holds %q, %v", text, err)
	}
	if len(came) > 0 {
		t.Errorf("%d connections went to the other user's server", len(came))
	}
	if err := os.Remove(file("rota.address")); err != nil {
		t.Fatal(err)
	}
	p := trial.Start(t, dir, "serve", "--shared-folder")
	trial.Until(t, "the server of a shared folder", func() bool { return strings.Contains(p.Out.String(), "serving "+connect.DefaultDir) })
}
