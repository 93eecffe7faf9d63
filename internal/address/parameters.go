package address

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Parameters are the parameters of a URL's query, by their names. The error of one says
// what it wants and, if it is no secret, what it got.
type Parameters[S any] map[string]func(set *S, value string) error

// Shared adds the parameters that all drivers have to a driver's own.
func Shared[S any](common func(*S) *Common, own Parameters[S]) Parameters[S] {
	all := Parameters[S]{
		"password-file": func(s *S, v string) error { return File(&common(s).PasswordFile, v) },
	}
	for name, field := range map[string]func(*Common) *string{
		"ca":   func(c *Common) *string { return &c.CA },
		"cert": func(c *Common) *string { return &c.Cert },
		"key":  func(c *Common) *string { return &c.Key },
	} {
		all[name] = func(s *S, v string) error {
			common(s).Secure = true
			return File(field(common(s)), v)
		}
	}
	maps.Copy(all, own)
	return all
}

// Read parses a query and returns the names of the parameters that it has. If a
// parameter is there twice, the last one counts.
func (p Parameters[S]) Read(query string, s *S) (given []string, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("the URL's parameters after ? cannot be read: write name=value&name=value, with % and + escaped")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set := p[name]
		if set == nil {
			if !Plain(name) { // it may be the rest of a password that contains a question mark
				name = "?"
			}
			return nil, fmt.Errorf("the URL has an unknown parameter %s; known are %s", name, strings.Join(slices.Sorted(maps.Keys(p)), ", "))
		}
		given = append(given, name)
		if err := set(s, values[name][len(values[name])-1]); err != nil {
			return nil, fmt.Errorf("the URL's parameter %s: %w", name, err)
		}
	}
	return given, nil
}

// File is a parameter that is the name of a file.
func File(to *string, v string) error {
	if v == "" {
		return errors.New("want the name of a file, or leave the parameter out")
	}
	*to = v
	return nil
}

// Name is a parameter that is a name.
func Name(to *string, v string) error {
	if v == "" {
		return errors.New("want a name, or leave the parameter out")
	}
	*to = v
	return nil
}

// Number is a parameter that is a number.
func Number(to *int, v string, least, most int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return fmt.Errorf("want a number from %d to %d, not %.40q", least, most, v)
	}
	*to = n
	return nil
}

// Only is a parameter that has one value, and is true if it is there.
func Only(to *bool, v, want string) error {
	if v != want {
		return fmt.Errorf("want %q, not %.40q", want, v)
	}
	*to = true
	return nil
}
