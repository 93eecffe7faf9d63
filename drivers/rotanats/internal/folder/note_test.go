package rotanats

import (
	"os"
	"strings"
	"testing"
)

// FuzzNote: whatever is in rota.address, it is refused by the file's name, or read as
// a note that comes back when it is written.
func FuzzNote(f *testing.F) {
	for _, s := range []string{`{"address":"127.0.0.1:14222","token":"T","pid":1}`, `{"address":"","pid":-1}`, `{"address":"h?creds=/x@y","guarded":true}`, `{"address":"\u001b[2J"}`,
		`{"address":["a"]}`, `null`, `{`, "", `{"ADDRESS":"a:1"}`, `{"pid":1e99}`, `{"address":"a:1","pid":9223372036854775807,"open":true}`} {
		f.Add([]byte(s))
	}
	at := folder{dir: f.TempDir()}
	if err := os.Chmod(at.dir, 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(at.path(noteFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := at.read()
		if err != nil {
			if !strings.Contains(err.Error(), at.path(noteFile)) || strings.Contains(err.Error(), "\n") {
				t.Errorf("refused with %q", err)
			}
			return
		}
		if err := at.note(n); err != nil {
			t.Fatal(err)
		}
		if again, err := at.read(); err != nil || again != n {
			t.Errorf("%+v comes back as %+v, %v", n, again, err)
		}
	})
}
