package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/plain"
)

// Count is a number of things.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return Grouped(n) + " " + thing
}

// Grouped writes a number with a comma between thousands.
func Grouped[T int | int64 | float64](v T) string {
	s := strconv.FormatInt(int64(math.Round(float64(v))), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Roughly is a duration as one says it.
func Roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
}

// Ago is how long ago something was, as one says it.
func Ago(d time.Duration) string {
	switch {
	case d < 0:
		return "just now"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s ago", d.Seconds())
	}
	return Roughly(d) + " ago"
}

func OneLine(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// Known refuses names that the group does not have.
func Known(thing string, have []string, names ...string) error {
	for _, n := range names {
		if slices.Contains(have, n) {
			continue
		}
		some := have[:min(len(have), 8)]
		rest := ""
		if len(have) > len(some) {
			rest = fmt.Sprintf(" and %d more", len(have)-len(some))
		}
		if len(have) == 0 {
			return fmt.Errorf("there is no %s called %q: there is none at all", thing, RedactIfURL(n))
		}
		return fmt.Errorf("there is no %s called %q; there are %s%s", thing, RedactIfURL(n), strings.Join(plain.Texts(some), ", "), rest)
	}
	return nil
}
