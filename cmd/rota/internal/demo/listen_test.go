package demo

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

// TestSecretsMayHaveAnyLetters: they reach the server within a URL.
func TestSecretsMayHaveAnyLetters(t *testing.T) {
	const user, secret = `a,d@a:`, `a,b@c:d/e?f%41g h+i&j=k#l"<é>[`
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		who    *url.Userinfo
		how    url.Values
		client func(addr string) string
	}{
		"password": {url.UserPassword(user, secret), url.Values{}, func(addr string) string { return "nats://" + escaped(user) + "@" + addr + "?password-file=" + file }},
		"token":    {nil, url.Values{"token": {secret}}, func(addr string) string { return "nats://" + addr + "?token-file=" + file }},
	} {
		s, err := embedded.Serve("embed:"+filepath.Join(t.TempDir(), "data"), listenURL(c.who, trial.FreePort(t), c.how))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		nc, err := rotanats.Connect(c.client(s.Addr()), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			nc.Close()
		}
		s.Close()
	}
	if got := listenURL(nil, ":4222", url.Values{}); got != "nats://0.0.0.0:4222?" {
		t.Errorf("every interface is %s", got)
	}
}
