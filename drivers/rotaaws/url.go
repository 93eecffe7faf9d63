package rotaaws

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/rota-dev/rota/internal/address"
)

// settings are the settings of a URL.
type settings struct {
	group    string // of Auto Scaling
	region   string // "": as the SDK finds it
	endpoint string // "": that of AWS
}

// parameters are the parameters of a URL's query.
var parameters = address.Parameters[settings]{
	"region":   func(s *settings, v string) error { return plainRegion(&s.region, v) },
	"endpoint": func(s *settings, v string) error { return plainEndpoint(&s.endpoint, v) },
}

// parse reads aws:GROUP?parameter=value. Its errors do not repeat the URL: somebody may
// have put a secret into it.
func parse(raw string) (settings, error) {
	var s settings
	raw, query, _ := strings.Cut(raw, "?")
	rest, ok := strings.CutPrefix(raw, "aws:")
	if !ok || strings.HasPrefix(rest, "//") {
		return s, errors.New("not the address of an Auto Scaling group: write aws:GROUP or aws:GROUP?region=REGION")
	}
	group, err := url.PathUnescape(rest)
	switch {
	case err != nil:
		return s, errors.New("the name of the Auto Scaling group is not escaped correctly: write a % as %25, a ? as %3F")
	case group == "":
		return s, errors.New("the URL names no Auto Scaling group: write aws:GROUP")
	case !validGroup(group):
		return s, errors.New("an Auto Scaling group has a name of at most 255 printable ASCII characters, without a colon")
	}
	s.group = group
	_, err = parameters.Read(query, &s)
	return s, err
}

// validGroup accepts the names that Auto Scaling does.
func validGroup(name string) bool {
	return len(name) <= 255 && strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == ':' }) < 0
}

// plainRegion reads the name of a region, which becomes a part of a host's name.
func plainRegion(to *string, v string) error {
	if !address.Plain(v) {
		return fmt.Errorf("want the name of a region, such as eu-central-1, not %.40q", v)
	}
	*to = v
	return nil
}

// plainEndpoint reads the address of a server that stands in for AWS.
func plainEndpoint(to *string, v string) error {
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("want http://HOST:PORT or https://HOST:PORT, without a user or a password")
	}
	*to = v
	return nil
}

// String returns the address for people.
func (s settings) String() string { return "aws:" + s.group }
