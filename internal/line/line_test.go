package line

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// Tokens are strings, all 64 bits of them: jq and JavaScript round numbers.
func TestTokensAreStrings(t *testing.T) {
	for _, token := range []uint64{1, 1 << 53, 1<<53 + 1, 1<<64 - 1} {
		l := Of(rota.Event{Kind: rota.EventGrant, Time: time.Now(), Member: "c1", Session: "s", Partition: "p", Token: rota.Token(token)}, "g", time.Second)
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var raw map[string]any
		if err := json.Unmarshal(b, &raw); err != nil {
			t.Fatal(err)
		}
		if _, ok := raw["token"].(string); !ok {
			t.Errorf("the token is no string: %s", b)
		}
		if again, err := Parse(b); err != nil || again.Token != token {
			t.Errorf("%v, and the token %d came back as %d", err, token, again.Token)
		}
	}
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	const rest = `"event":"grant","session":"s","partition":"p0"`
	for text, want := range map[string]string{
		`{"v":1,"token":1,` + rest + `}`:                      "of version 1, which an older rota wrote; this one knows version 2: judge the file with the rota that wrote it, or move it away",
		`{"v":1,"event":"joined"}`:                            "of version 1",
		`{"v":3,"token":{},` + rest + `}`:                     "of version 3, which a newer rota wrote; this one knows version 2: use the newer one",
		`{"v":2,"token":7,` + rest + `}`:                      `the token 7 is not a string: since version 2 tokens are, as in "token":"7"`,
		`{"v":2,"token":"",` + rest + `}`:                     `the token "" is not a string`,
		`{"v":2,"token":"seven",` + rest + `}`:                "not an event line",
		`{"v":2,"token":"18446744073709551616",` + rest + `}`: "not an event line",
		`{"v":2,"token":"0",` + rest + `}`:                    "grant without its partition, token or session",
		`{"v":2,"boot_ns":-1,"event":"joined"}`:               "a time before the machine started",
		`{"v":2}`:                                             "an event line without an event",
		`{"event":"joined"}`:                                  "it has no version",
		`[]`:                                                  "not an event line",
		`hello`:                                               "not an event line",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
