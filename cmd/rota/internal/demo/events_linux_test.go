package demo

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestAPipeInTheFolderHoldsUpNobody: opening it for writing would wait for a reader.
func TestAPipeInTheFolderHoldsUpNobody(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "events.jsonl"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := newEventFile(dir); err == nil {
		f.Close()
		t.Error("events are written to a pipe")
	}
}
