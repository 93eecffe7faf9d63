package address

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// An example is the settings of a driver that has the shared ones and two of its own.
type example struct {
	Common
	path  string
	count int
	sure  bool
	given []string
}

var parameters = Shared(func(u *example) *Common { return &u.Common }, Parameters[example]{
	"count": func(u *example, v string) error { return Number(&u.count, v, 1, 9) },
	"sure":  func(u *example, v string) error { return Only(&u.sure, v, "true") },
	"name":  func(u *example, v string) error { var to string; return Name(&to, v) },
})

// parse parses what follows the scheme.
func parse(rest string) (*example, error) {
	u := &example{Common: Common{Log: Silent}}
	rest, query, _ := strings.Cut(rest, "?")
	err := error(nil)
	if u.path, err = u.Authority(rest, "77"); err == nil {
		u.given, err = parameters.Read(query, u)
	}
	if err == nil {
		err = u.Check()
	}
	if err == nil {
		err = u.CheckUser("x")
	}
	return u, Named("driver", err)
}

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		rest, want string // servers and path, or a part of the error
		ok         bool
	}{
		{"a", "[a:77] ", true},
		{"a:1,b:2/x/y/", "[a:1 b:2] x/y", true},
		{"[::1],[::2]:5", "[[::1]:77 [::2]:5] ", true},
		{"u:p/w@a/x", "[a:77] x", true},
		{"u@a?password-file=f", "[a:77] ", true},
		{"a?ca=x&cert=y&key=z&count=3&sure=true&name=n", "[a:77] ", true},
		{"", "driver: server 1 of the URL is not a HOST:PORT", false},
		{"a,b:x", "server 2 of the URL is not a HOST:PORT", false},
		{"a:0", "server 1 of the URL is not", false},
		{"a:70000", "server 1 of the URL is not", false},
		{"a b", "server 1 of the URL is not", false},
		{"a:b:c", "server 1 of the URL is not", false},
		{"a,b,a:77", "server 3 of the URL is there twice: write each once", false},
		{"%zz@a", "not escaped correctly: write a % as %25", false},
		{"a?x=%", "parameters after ? cannot be read", false},
		{"a?cuont=3", "unknown parameter cuont; known are ca, cert, count, key, name, password-file, sure", false},
		{"a?c%20t=3", "unknown parameter ?; known are", false},
		{"a?count=10", `the URL's parameter count: want a number from 1 to 9, not "10"`, false},
		{"a?sure=yes", `the URL's parameter sure: want "true", not "yes"`, false},
		{"a?name=", "the URL's parameter name: want a name, or leave the parameter out", false},
		{"a?ca=", "the URL's parameter ca: want the name of a file, or leave the parameter out", false},
		{"a?cert=x", "cert and key: give both or none", false},
		{"u:p@a?password-file=f", "a password and a password-file: give one of them", false},
		{"a?password-file=f", "password-file needs a user: x://USER@HOST?password-file=FILE", false},
		{":p@a", "a password without a user: write x://USER:PASSWORD@HOST", false},
		{"u@a", "a user without a password: write x://USER:PASSWORD@HOST, or x://USER@HOST?password-file=FILE", false},
	} {
		u, err := parse(c.rest)
		got := fmt.Sprint(u.Servers, " ", u.path)
		if err != nil {
			got = err.Error()
		}
		if (err == nil) != c.ok || c.ok && got != c.want || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.rest, got, c.want)
		}
	}
}

func TestAURLIsReadWhole(t *testing.T) {
	u, err := parse("us%3Aer:pass%40w%2Ford@a?count=3&sure=true&cert=c&key=k&ca=r&ca=s")
	if err != nil || u.User != "us:er" || string(u.Password) != "pass@w/ord" || u.count != 3 || !u.sure || !u.Secure || u.Cert != "c" || u.Key != "k" || u.CA != "s" {
		t.Errorf("%+v, %v", u, err)
	}
	if want := []string{"ca", "cert", "count", "key", "sure"}; !slices.Equal(u.given, want) {
		t.Errorf("given are %v, want %v", u.given, want)
	}
	if u, err := parse("a?count=3"); err != nil || u.Secure {
		t.Errorf("TLS without a word of it: %v", err)
	}
}

func TestPlainNames(t *testing.T) {
	long := strings.Repeat("x", 64)
	for name, want := range map[string]bool{"a": true, "A-z_9": true, long: true, long + "x": false, "": false, "a.b": false, "a/b": false, "ä": false} {
		if Plain(name) != want {
			t.Errorf("Plain(%q) is not %v", name, want)
		}
	}
	for path, want := range map[string]bool{"a": true, "a/b-c": true, "": false, "/a": false, "a//b": false, "a/": false, long + "/x": false} {
		if PlainSteps(path, 64) != want {
			t.Errorf("PlainSteps(%q) is not %v", path, want)
		}
	}
}

func TestFilesAreReadEachTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	c := Common{Secure: true, User: "u", PasswordFile: file}
	if err := c.Readable(); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "the password file: ") {
		t.Errorf("a file that is not there: %v", err)
	}
	for text, want := range map[string]string{"one\n": "one", " two ": "two", "": "", "\n": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := c.ReadPassword()
		if string(got) != want || (err != nil) != (want == "") {
			t.Errorf("the file has %q, and the password is %q, %v", text, string(got), err)
		}
	}
	for want, c := range map[string]Common{
		"the file of trusted certificates: no certificate in " + file: {Secure: true, CA: file},
		"the file of trusted certificates: open ":                     {Secure: true, CA: file + ".not"},
		"certificate f with key f.key: ":                              {Secure: true, Cert: file, Key: file + ".key"},
	} {
		if err := c.Readable(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestExposedSecretsAreLogged(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // it has no such modes
	}
	dir := t.TempDir()
	path := func(name string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(file, []byte("hunter2"), 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var log strings.Builder
	c := Common{Log: slog.New(slog.NewTextHandler(&log, nil)), PasswordFile: path("password", 0o640), Key: path("key", 0o600)}
	c.WarnExposed("", path("token", 0o604), filepath.Join(dir, "missing"))
	for name, want := range map[string]int{"password": 1, "key": 0, "token": 1, "missing": 0, "mode=0640": 1, "chmod 600": 2, "hunter2": 0} {
		if n := strings.Count(log.String(), name); name != "password" && n != want || name == "password" && n == 0 {
			t.Errorf("%d times %s, want %d:\n%s", n, name, want, &log)
		}
	}
}

const concealed = "hunter2SECRET"

// FuzzURL: what is parsed is parsed the same again, and nothing prints a password.
func FuzzURL(f *testing.F) {
	for _, rest := range []string{"a", "u:p@a:1,b:2/x?count=3", "u:p@[::1]:5?ca=x&cert=y&key=z", "a/b/c?password-file=%", "@:,@/?=&;"} {
		f.Add(rest)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		if u, err := parse(rest); err == nil {
			again, err := parse(strings.Join(u.Servers, ","))
			if err != nil || !slices.Equal(again.Servers, u.Servers) {
				t.Errorf("%q has %v, and those are %v, %v", rest, u.Servers, again.Servers, err)
			}
		}
		for _, secretive := range []string{"u:" + concealed + "@" + rest, ":" + concealed + "@" + rest, "u:1?" + concealed + "@" + rest} {
			u, err := parse(secretive)
			if text := fmt.Sprintf("%v %+v %#v %s %q %x %v", u.Password, u.Password, u.Password, u.Password, u.Password, u.Password, err); strings.Contains(text, concealed) {
				t.Errorf("%q tells its secret: %s", secretive, text)
			}
		}
	})
}
