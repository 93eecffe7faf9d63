package rotaaws

import (
	"strings"
	"testing"

	"github.com/rota-dev/rota"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		url  string
		want string // group, region and endpoint, or a part of the error
		ok   bool
	}{
		{"aws:fleet", "fleet  ", true},
		{"aws:my%20fleet%2F%3F", "my fleet/?  ", true},
		{"aws:fleet/blue?region=eu-central-1", "fleet/blue eu-central-1 ", true},
		{"aws:f?endpoint=http://127.0.0.1:9&region=r", "f r http://127.0.0.1:9", true},
		{"aws:f?endpoint=https%3A%2F%2Fvpce.example", "f  https://vpce.example", true},
		{"", "not the address of an Auto Scaling group: write aws:GROUP", false},
		{"fleet", "write aws:GROUP", false},
		{"aws://fleet", "write aws:GROUP", false},
		{"aws:", "names no Auto Scaling group", false},
		{"aws:?region=r", "names no Auto Scaling group", false},
		{"aws:a:b", "without a colon", false},
		{"aws:a%0Ab", "printable ASCII", false},
		{"aws:" + strings.Repeat("a", 256), "at most 255", false},
		{"aws:a%zz", "is not escaped correctly", false},
		{"aws:f?regio=x", "unknown parameter regio; known are endpoint, region", false},
		{"aws:f?region=", `want the name of a region, such as eu-central-1, not ""`, false},
		{"aws:f?region=a.b", `want the name of a region, such as eu-central-1, not "a.b"`, false},
		{"aws:f?endpoint=ftp://x", "want http://HOST:PORT", false},
		{"aws:f?endpoint=http:", "want http://HOST:PORT", false},
		{"aws:f?endpoint=http://me:hunter2@x", "without a user or a password", false},
	} {
		s, err := parse(c.url)
		got := s.group + " " + s.region + " " + s.endpoint
		if err != nil {
			got = err.Error()
		}
		if (err == nil) != c.ok || c.ok && got != c.want || !strings.Contains(got, c.want) || strings.Contains(got, "hunter2") {
			t.Errorf("%q: %s, want %s", c.url, got, c.want)
		}
		if check := Check(c.url); (check == nil) != c.ok || check != nil && check.Error() != "rotaaws: "+got {
			t.Errorf("Check(%q) says %v", c.url, check)
		}
		if call := Scaler(c.url).(rota.Checker).Check(); (call == nil) != c.ok {
			t.Errorf("the Scaler of %q says %v", c.url, call)
		}
	}
	if err := Scaler("aws:").Scale(t.Context(), 1, nil); err == nil || !strings.Contains(err.Error(), "names no Auto Scaling group") {
		t.Errorf("a call with a wrong URL: %v", err)
	}
}

// FuzzURL reads anything as a URL. What is accepted can be asked for.
func FuzzURL(f *testing.F) {
	for _, url := range []string{"aws:fleet", "aws:a%20b?region=eu-central-1&endpoint=http://h:1", "aws:?", "aws:%"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		s, err := parse(url)
		if err == nil && (!validGroup(s.group) || s.group == "" || strings.ContainsAny(s.region, "./@ ")) {
			t.Errorf("%q: %+v", url, s)
		}
		if err != nil && (err.Error() == "" || strings.ContainsAny(err.Error(), "\n\x00")) {
			t.Errorf("%q: %v", url, err)
		}
	})
}
