package main

import (
	"os"
	"strings"
	"testing"
)

// A file with a secret that other users may read is warned of once, with its mode.
func TestASecretThatOthersMayReadIsWarnedOf(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, mode := range map[string]os.FileMode{"mine": 0o600, "everybodys": 0o644, "groups": 0o640} {
		if err := os.WriteFile(name, []byte("hunter2\n"), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"status --group g --store nats://ada@127.0.0.1:1?password-file=mine":                                                                         "",
		"status --group g --store nats://ada@127.0.0.1:1?password-file=everybodys":                                                                   "everybodys (mode 0644)",
		"status --group g --store nats://127.0.0.1:1?token-file=groups":                                                                              "groups (mode 0640)",
		"status --group g --store nats://127.0.0.1:1?creds=everybodys":                                                                               "everybodys (mode 0644)",
		"status --group g --store tls://127.0.0.1:1?cert=mine&key=groups":                                                                            "groups (mode 0640)",
		"status --group g --store nats://127.0.0.1:1?token-file=none":                                                                                "",
		"run --group g --store nats://127.0.0.1:1?token-file=groups --source nats://127.0.0.1:1?token-file=groups&stream=S&subject=a.*&partitions=1": "groups (mode 0640)",
		"produce --source nats://ada@127.0.0.1:1?stream=S&subject=a.*&partitions=1&password-file=everybodys hello":                                   "everybodys (mode 0644)",
		"serve --listen x --token-file everybodys":                                                                                                   "everybodys (mode 0644)",
		"serve --listen x --cert mine --key groups":                                                                                                  "groups (mode 0640)",
	} {
		_, _, stderr := rotaRuns(t.Context(), strings.Fields(args)...)
		times := 1
		if want == "" {
			times = 0
		}
		if n := strings.Count(stderr, "rota: warning: other users may read the secret in "+want); n != times || strings.Contains(stderr, "hunter2") {
			t.Errorf("rota %s: warned %d times of %q:\n%s", args, n, want, stderr)
		}
	}
}
