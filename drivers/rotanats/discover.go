package rotanats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rota-dev/rota"
)

// Whoever may publish to a stream makes up subjects, and each becomes a partition
// with a consumer of its own. So there is a limit,
// most=. If the stream has more subjects, those that have a consumer already are kept,
// then the others follow in alphabetical order.
const defaultDiscovered = 1000

// mostTold is how many of the subjects that cannot be served are named.
const mostTold = 8

// discovered makes partitions of subjects, which are sorted. What it leaves out it
// tells in an error that wraps rota.ErrPartial.
func (s *source) discovered(ctx context.Context, subjects []string) (out []rota.Partition, err error) {
	var left []error
	good := slices.DeleteFunc(subjects, func(subject string) bool {
		why := unfit(subject)
		if why != "" && len(left) <= mostTold {
			left = append(left, fmt.Errorf("%w: subject %.80q of stream %s %s", rota.ErrPartial, subject, s.set.Stream, why))
		}
		return why != ""
	})
	if found := len(good); found > s.set.Most {
		if good, err = s.first(ctx, good); err != nil {
			return nil, err
		}
		left = append([]error{fmt.Errorf("%w: stream %s has %d subjects like %s, more than most=%d; only %d are served",
			rota.ErrPartial, s.set.Stream, found, s.set.Subject, s.set.Most, len(good))}, left...)
	}
	for _, subject := range good {
		out = append(out, rota.Partition{Name: subject})
	}
	return out, errors.Join(left...)
}

// first chooses as many as are allowed: those with a consumer before the others. In
// alphabetical order alone, new subjects would displace old ones in the list, but
// not in the group, which forgets no partition.
func (s *source) first(ctx context.Context, subjects []string) ([]string, error) {
	consumers, err := s.consumers(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(subjects, func(a, b string) int {
		switch {
		case consumers[a] != nil && consumers[b] == nil:
			return -1
		case consumers[a] == nil && consumers[b] != nil:
			return 1
		}
		return 0
	})
	subjects = subjects[:s.set.Most]
	slices.Sort(subjects)
	return subjects, nil
}

// unfit tells why a subject cannot be a partition, "" if it can. The server tells
// subjects in JSON, where what is not UTF-8 becomes U+FFFD: which subject it was
// cannot be told then.
func unfit(subject string) string {
	switch {
	case len(subject) > 256:
		return fmt.Sprintf("is %d bytes long, more than 256", len(subject))
	case !utf8.ValidString(subject) || strings.ContainsRune(subject, utf8.RuneError):
		return "is not UTF-8"
	case strings.IndexFunc(subject, unicode.IsControl) >= 0:
		return "has control characters"
	}
	return ""
}
