package connect

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/internal/plain"
)

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
		if n != (Note{}) && !json.Valid(b) {
			t.Errorf("%q is read as %+v", b, n)
		}
		if _, err := natsSource("embed:"+dir+"?"+n.Source, false); err != nil {
			trial.Tame(t, "a refusal", plain.Lines(err.Error()))
		}
	})
}
