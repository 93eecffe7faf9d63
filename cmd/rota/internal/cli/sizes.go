package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Sizes is the value of --scale: the least and the most members.
func Sizes(least, most *int) pflag.Value { return sizes{least, most} }

type sizes struct{ least, most *int }

func (v sizes) Type() string { return "MIN..MAX" }

func (v sizes) String() string {
	if v.most == nil || *v.most == 0 {
		return ""
	}
	return fmt.Sprintf("%d..%d", *v.least, *v.most)
}

func (v sizes) Set(text string) error {
	from, to, found := strings.Cut(text, "..")
	low, err := strconv.Atoi(from)
	high, err2 := strconv.Atoi(to)
	if !found || err != nil || err2 != nil || low < 1 || high < low {
		return fmt.Errorf("%q: want the least and the most, as 2..16", text)
	}
	*v.least, *v.most = low, high
	return nil
}
