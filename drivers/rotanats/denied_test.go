package rotanats

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestRefusalsAreRead reads the errors that a server sends about missing rights.
func TestRefusalsAreRead(t *testing.T) {
	for text, want := range map[string]refusal{
		`Permissions Violation for Publish to "$JS.ACK.S.c.1.1"`:            {publish: true, subject: "$JS.ACK.S.c.1.1"},
		`Permissions Violation for Publish to "a\x01b"`:                     {publish: true, subject: "a\x01b"},
		`Permissions Violation for Publish to "a\"b to \"c"`:                {publish: true, subject: `a"b to "c`},
		`Permissions Violation for Subscription to "_INBOX.x.*"`:            {subject: "_INBOX.x.*"},
		`Permissions Violation for Subscription to "a" using queue "q"`:     {subject: "a"},
		`Permissions Violation for Publish with Reply of "_INBOX.x"`:        {},
		`Permissions Violation for Publish to something of another version`: {publish: true},
		`Permissions Violation`:                                             {},
	} {
		err := fmt.Errorf("%w: %s", nats.ErrPermissionViolation, text)
		r := readRefusal(err)
		if r == nil || r.publish != want.publish || r.subject != want.subject {
			t.Errorf("%s: read %+v", text, r)
		}
		if !denied(fmt.Errorf("write: %w", r)) || !refusedBy(r) || !errors.Is(r, nats.ErrPermissionViolation) {
			t.Errorf("%s: it does not count as a missing right", text)
		}
	}
	if r := readRefusal(errors.New(`Permissions Violation for Publish to "a"`)); r != nil {
		t.Errorf("another error was read as %+v", r)
	}
	if denied(nats.ErrPermissionViolation) {
		t.Error("the last error of a server, added to a timeout, counts as a missing right")
	}
}

func FuzzRefusal(f *testing.F) {
	f.Add(`Permissions Violation for Publish to "a"`)
	f.Add(`Permissions Violation for Subscription to "a" using queue "q"`)
	f.Add(`Permissions Violation for Publish to "\`)
	f.Fuzz(func(t *testing.T, text string) {
		r := readRefusal(fmt.Errorf("%w: %s", nats.ErrPermissionViolation, text))
		if r == nil || r.subject != "" && !strings.Contains(text, " to ") {
			t.Errorf("%q: read %+v", text, r)
		}
	})
}
