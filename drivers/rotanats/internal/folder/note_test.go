package folder

import (
	"os"
	"strings"
	"testing"
)

// FuzzNote checks that any content of rota.address is refused with the file's name, or read
// as a note that is the same after it is written and read again.
func FuzzNote(f *testing.F) {
	for _, s := range []string{`{"address":"127.0.0.1:14222","token":"T","pid":1}`, `{"address":"","pid":-1}`, `{"address":"h?creds=/x@y","guarded":true}`, `{"address":"\u001b[2J"}`,
		`{"address":["a"]}`, `null`, `{`, "", `{"ADDRESS":"a:1"}`, `{"pid":1e99}`, `{"address":"a:1","pid":9223372036854775807,"open":true}`} {
		f.Add([]byte(s))
	}
	at := Folder{Dir: f.TempDir()}
	if err := os.Chmod(at.Dir, 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(at.Path(noteFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := at.Read()
		if err != nil {
			if !strings.Contains(err.Error(), at.Path(noteFile)) || strings.Contains(err.Error(), "\n") {
				t.Errorf("refused with %q", err)
			}
			return
		}
		if err := at.WriteNote(n); err != nil {
			t.Fatal(err)
		}
		if again, err := at.Read(); err != nil || again != n {
			t.Errorf("%+v comes back as %+v, %v", n, again, err)
		}
	})
}
