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

// defaultDiscovered is the default of most=, the limit for discovered partitions. Every
// publisher can make up subjects, and each becomes a partition with a consumer of its
// own. If the stream has more subjects, those with a consumer are kept, then the others
// follow in alphabetical order.
const defaultDiscovered = 1000

// After more than maxNamed subjects that cannot be partitions, no further ones are named:
// rota itself says that there are more.
const maxNamed = 8

// discovered makes partitions of sorted subjects. It names those that it leaves out in
// an error that wraps rota.ErrPartial.
func (s *source) discovered(ctx context.Context, subjects []string) (out []rota.Partition, err error) {
	var omitted []error
	good := slices.DeleteFunc(subjects, func(subject string) bool {
		why := unfit(subject)
		if why != "" && len(omitted) <= maxNamed {
			omitted = append(omitted, fmt.Errorf("%w: subject %.80q of stream %s %s", rota.ErrPartial, subject, s.set.Stream, why))
		}
		return why != ""
	})
	if found := len(good); found > s.set.Most {
		if good, err = s.first(ctx, good); err != nil {
			return nil, err
		}
		omitted = append([]error{fmt.Errorf("%w: stream %s has %d subjects like %s, more than most=%d; only %d are served",
			rota.ErrPartial, s.set.Stream, found, s.set.Subject, s.set.Most, len(good))}, omitted...)
	}
	if len(good) == 0 { // a subject appears with its first message: rota waits for one
		omitted = append(omitted, fmt.Errorf("%w: stream %s has no message of %s yet", rota.ErrPartial, s.set.Stream, s.set.Subject))
	}
	for _, subject := range good {
		out = append(out, rota.Partition{Name: subject, Topic: s.set.Stream})
	}
	return out, errors.Join(omitted...)
}

// first returns as many subjects as are allowed: those with a consumer before the
// others. By alphabetical order alone, new subjects would displace old ones in the list,
// but not in the group, which keeps every partition.
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

// unfit returns why a subject cannot be a partition, "" if it can. The server lists
// subjects in JSON, where bytes that are not UTF-8 become U+FFFD: the subject's real name
// is then unknown. The server also stores a message that is published to orders.* itself:
// a consumer of that subject would get the messages of all other partitions.
func unfit(subject string) string {
	switch {
	case len(subject) > 256:
		return fmt.Sprintf("is %d bytes long, more than 256", len(subject))
	case !utf8.ValidString(subject) || strings.ContainsRune(subject, utf8.RuneError):
		return "is not UTF-8"
	case strings.IndexFunc(subject, unicode.IsControl) >= 0:
		return "has control characters"
	case slices.ContainsFunc(strings.Split(subject, "."), func(token string) bool { return token == "*" || token == ">" }):
		return "is a pattern, and would match those of other partitions"
	}
	return ""
}
