package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

// A secret on the command line is warned of once, with the way out; one in the
// environment or in a file is not.
func TestASecretOnTheCommandLineIsWarnedOf(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("secret", []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const warning = "rota: warning: every user of this machine can read the secret in "
	for args, flags := range map[string]string{
		"status --group g --store nats://ada:hunter2@127.0.0.1:1":                                              "--store: ",
		"status --group g --store nats://hunter2@127.0.0.1:1":                                                  "--store: ",
		"status --group g --store nats://127.0.0.1:1?token=hunter2":                                            "--store: ",
		"run --group g --store nats://a:hunter2@127.0.0.1:1 --source nats://a:hunter2@127.0.0.1:1?stream=S":    "--source and --store: ",
		"run --group g --store mem: --source none:?partitions=1 --handle https://ada:hunter2@h/":               "--handle: ",
		"run --group g --store mem: --source none:?partitions=1 --handle https://h/?sig=hunter2":               "--handle: ",
		"status --group g --store nats://127.0.0.1:1":                                                          "",
		"status --group g --store nats://ada@127.0.0.1:1?password-file=secret":                                 "",
		"status --group g --store nats://127.0.0.1:1?token-file=secret":                                        "",
		"run --group g --store mem: --source none:?partitions=1 --handle https://h/":                           "",
		"produce --source nats://ada@127.0.0.1:1?stream=S&subject=a.*&partitions=1&password-file=secret hello": "",
	} {
		_, _, stderr := rotaRuns(t.Context(), strings.Fields(args)...)
		want := 1
		if flags == "" {
			want = 0
		}
		if strings.Count(stderr, warning+flags) != want || want == 0 && strings.Contains(stderr, "warning") {
			t.Errorf("rota %s: %q", args, stderr)
		}
		if strings.Contains(stderr, "hunter2") {
			t.Errorf("rota %s tells the secret: %q", args, stderr)
		}
	}
	t.Setenv("ROTA_STORE", "nats://ada:hunter2@127.0.0.1:1")
	if _, _, stderr := rotaRuns(t.Context(), "status", "--group", "g"); strings.Contains(stderr, "warning") || strings.Contains(stderr, "hunter2") {
		t.Errorf("by the environment: %q", stderr)
	}
}

// What stands in a file lets members, orders and producers in.
func TestSecretsComeFromFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]func(host string) string{
		"password": func(h string) string { return "nats://ada@" + h + "?password-file=" + file },
		"token":    func(h string) string { return "nats://" + h + "?token-file=" + file },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := embedded.Serve("embed:"+filepath.Join(dir, name), url(trial.FreePort(t)))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, host, _ := strings.Cut(s.URL(), "://")
			host = host[strings.LastIndexByte(host, '@')+1:]
			at := url(host)
			code, _, stderr := rotaRuns(t.Context(), "status", "--group", "g", "--store", at)
			if code != cli.ExitFailed || !strings.Contains(stderr, "there is no group called") {
				t.Errorf("status: exit %d, %q", code, stderr)
			}
			code, _, stderr = rotaRuns(t.Context(), "status", "--group", "g", "--store", "nats://"+host)
			if code != cli.ExitUnreachable {
				t.Errorf("status without a secret: exit %d, %q", code, stderr)
			}
			nc, err := connect.Dial(t.Context(), at+"&stream=S&subject=a.*")
			if err != nil {
				t.Fatal(err)
			}
			nc.Close()
			if err := os.WriteFile(file+".empty", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := connect.Dial(t.Context(), at+".empty"); err == nil || !strings.Contains(err.Error(), "is empty") {
				t.Errorf("an empty file: %v", err)
			}
		})
	}
}
