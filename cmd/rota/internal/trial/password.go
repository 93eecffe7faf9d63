package trial

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// FuzzPasswords: nothing that is told about a URL contains its password.
func FuzzPasswords(f *testing.F, told func(url string) []string) {
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
		without := strings.Join(whole("Zq"), "\n") + "***://"
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

// NoPartOfAPassword: a part of it is no better.
func NoPartOfAPassword(t *testing.T, told func(url string) []string) {
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
