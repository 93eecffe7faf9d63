package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

func TestRedact(t *testing.T) {
	for raw, want := range map[string]string{
		"nats://host:4222":                      "nats://host:4222",
		"nats://token@host":                     "nats://***@host",
		"nats://me:pw@a,you:pw@b?stream=S":      "nats://***@b?stream=S",
		"nats://me:pw@a,nats://you:pw@b":        "nats://***@b",
		"nats://h?token=x&stream=S&subject=a.*": "nats://h?token=***&stream=S&subject=a.*",
		"tls://h?creds=f&key=k&ca=c":            "tls://h?creds=***&key=***&ca=c",
		"nats://me@h?password-file=f":           "nats://***@h?password-file=f",
		"nats://h?pw=x&stream=S&sig=y&x":        "nats://h?***&stream=S&***&***",
		"nats://h?token=a@b&stream=S":           "nats://***",
		"me:pw@host":                            "***",
		"me:pw@nats://you:pw@host":              "***",
		"nats://me:p%zz@host":                   "nats://***@host",
		"nats://me:pa?ss@host":                  "nats://***",
		"nats://me:pa?stream=ss@host":           "nats://***",
		"nats://me:p[a<s s@host":                "nats://***@host",
		"nats://me:pw@ho\x1bst":                 "***",
		"http://me:pw@h:80/x?a=1#f":             "http://***@h:80",
		"https://hooks.example/T0/B0/x?sig=1":   "https://hooks.example",
		"http:https://h/x?auth=1":               "https://h",
		"http://me:p/w@h/":                      "http://***",
		"http://me:p#w@h/":                      "http://***",
		"https://h/x@y":                         "https://***",
		"ftp://me:pw@h/":                        "ftp://***@h/",
		"none:?partitions=4":                    "none:?partitions=4",
		"embed:dir?stream=S&token=x":            "embed:dir?stream=S&token=***",
		"folder:rota-data":                      "in rota-data",
	} {
		if got := redact(raw); got != want {
			t.Errorf("redact(%q) = %q, want %q", raw, got, want)
		}
	}
}

var someRoot = rootCmd()

// told is everything that rota has to say about a URL: redacted, and in the
// errors of all that would read it.
func told(raw string) []string {
	_, parsed := url.Parse(raw)
	if parsed == nil {
		parsed = errors.New("well")
	}
	out := []string{redact(raw), bare(fmt.Errorf("dial: %w", &url.Error{Op: "Post", URL: raw, Err: fmt.Errorf("again: %w", &url.Error{Op: "parse", URL: raw, Err: errors.New("refused")})})).Error(),
		unreachable(raw, parsed).Error()}
	if _, err := openSource(raw); err != nil {
		out = append(out, err.Error())
	}
	if s, err := openStore(raw); err != nil {
		out = append(out, err.Error())
	} else {
		s.Close()
	}
	for _, flag := range []string{"handle", "own"} {
		f := memberFlags{own: raw, source: "none:?partitions=1"}
		if flag == "handle" {
			f = memberFlags{handle: raw, source: "nats://h?stream=S&subject=a.*"}
		}
		if _, _, _, err := f.prepare(nil); err != nil {
			out = append(out, err.Error())
		}
	}
	for _, arg := range []string{raw, strings.ReplaceAll(raw, "\x00", "")} {
		out = append(out, unknownArgument(someRoot, []string{arg}).Error(), known("partition", []string{"a"}, arg).Error())
	}
	return out
}

// FuzzRedact: no text about a URL contains its password.
func FuzzRedact(f *testing.F) {
	for _, pw := range []string{"hunter2SECRET", "hunter2SECRET?x", "hunter2 SECRET", "hunter2[SECRET", "hunter2<SECRET", "hunter2@SECRET", "hunter2/SECRET", "hunter2#SECRET",
		"hunter2%zzSECRET", "hunter2&stream=SECRET", "hunter2?stream=SECRET", "hunter2\nSECRET", "hunter2\x1b[2JSECRET", "hunter2://SECRET", "hunter2,nats://SECRET", "hunter2\xffSECRET", "hunter2;SECRET", `hunter2"SECRET\`} {
		for scheme := range uint8(7) {
			f.Add(scheme, "ada", pw, scheme)
		}
	}
	schemes := []string{"nats://", "tls://", "http://", "https://", "http:https://", "redis://", ""}
	tails := []string{"", "/path", "?stream=S&subject=a.*&partitions=3", "?nonsense=1", "/x?sig=1", ":port", ",other:4222"}
	f.Fuzz(func(t *testing.T, scheme uint8, user, password string, tail uint8) {
		if len(password) < 4 {
			return
		}
		whole := func(pw string) []string {
			return told(schemes[int(scheme)%len(schemes)] + user + ":" + pw + "@host" + tails[int(tail)%len(tails)])
		}
		without := strings.Join(whole("Zq"), "\n") + hidden + "://"
		for _, text := range whole(password) {
			quoted := strings.Trim(fmt.Sprintf("%q", password), `"`)
			for _, pw := range []string{password, quoted, url.PathEscape(password), url.QueryEscape(password)} {
				if strings.Contains(text, pw) && !strings.Contains(without, pw) {
					t.Errorf("password %q: %q", password, text)
				}
			}
		}
	})
}

// A part of a password is no better.
func TestNoPartOfAPasswordIsTold(t *testing.T) {
	for _, odd := range []string{"?", "[", "<", " ", "/", "#", "@", "%zz", "&", "?a=b&", "\t", "://", ",", ";", ":"} {
		for _, scheme := range []string{"nats://", "tls://", "http://", "https://", "redis://"} {
			for _, text := range told(scheme + "ada:hunter2" + odd + "SECRET@host?stream=S&subject=a.*") {
				if strings.Contains(text, "hunter2") || strings.Contains(text, "SECRET") {
					t.Errorf("%s…%s…: %q", scheme, odd, text)
				}
			}
		}
	}
}

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
			s, err := embedded.Serve("embed:"+filepath.Join(dir, name), url(freePort(t)))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, host, _ := strings.Cut(s.URL(), "://")
			host = host[strings.LastIndexByte(host, '@')+1:]
			at := url(host)
			code, _, stderr := rotaRuns(t.Context(), "status", "--group", "g", "--store", at)
			if code != exitFailed || !strings.Contains(stderr, "there is no group called") {
				t.Errorf("status: exit %d, %q", code, stderr)
			}
			code, _, stderr = rotaRuns(t.Context(), "status", "--group", "g", "--store", "nats://"+host)
			if code != exitUnreachable {
				t.Errorf("status without a secret: exit %d, %q", code, stderr)
			}
			nc, err := dialNATS(t.Context(), at+"&stream=S&subject=a.*")
			if err != nil {
				t.Fatal(err)
			}
			nc.Close()
			if err := os.WriteFile(file+".empty", nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := dialNATS(t.Context(), at+".empty"); err == nil || !strings.Contains(err.Error(), "is empty") {
				t.Errorf("an empty file: %v", err)
			}
		})
	}
}
