package record

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// These are limits in bytes on texts that people and other systems put into
// records.
const (
	maxPartition = 256  // a partition's name, a metadata or label key
	maxMember    = 128  // a member's name
	maxIdentity  = 128  // a server's identity, a boot id
	maxCondition = 256  // one condition
	maxCode      = 64   // the code of a condition, or of a cause
	maxPairs     = 4096 // keys and values of one partition's metadata, or of a member's labels
	maxProse     = 1024 // a cause, or one field of the orders' log
)

// name checks a name that others look up and show: it must not be empty, nor able
// to break a line, a subject or a terminal.
func name(field, s string, limit int) error {
	if s == "" {
		return fmt.Errorf("%s is empty", field)
	}
	return clean(field, s, limit, unicode.IsControl, "a control character")
}

// identity checks an optional identifier that another system chose.
func identity(field, s string) error {
	return clean(field, s, maxIdentity, unprintable, "a character that cannot be printed")
}

// prose checks free text for people. It may be empty and have several lines, as
// joined errors do.
func prose(field, s string) error {
	return clean(field, s, maxProse, control, "a control character")
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
func control(r rune) bool     { return unicode.IsControl(r) && r != '\n' && r != '\t' }

func clean(field, s string, limit int, bad func(rune) bool, what string) error {
	if len(s) > limit {
		return fmt.Errorf("%s %.40q… has %d bytes, more than %d", field, s, len(s), limit)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s %q is not UTF-8", field, s)
	}
	if strings.ContainsFunc(s, bad) {
		return fmt.Errorf("%s %q contains %s", field, s, what)
	}
	return nil
}

func names(field string, list []string, limit int) error {
	for _, s := range list {
		if err := name(field, s, limit); err != nil {
			return err
		}
	}
	return nil
}

// pairs checks metadata or labels.
func pairs(field string, list []Pair) error {
	size := 0
	for _, p := range list {
		size += len(p.Key) + len(p.Value)
		if err := name(field+": key", p.Key, maxPartition); err != nil {
			return err
		}
		if !utf8.ValidString(p.Value) {
			return fmt.Errorf("%s: value %.40q of %q is not UTF-8", field, p.Value, p.Key)
		}
	}
	if size > maxPairs {
		return fmt.Errorf("%s: %d bytes of keys and values, more than %d", field, size, maxPairs)
	}
	return sorted(field, list, func(p Pair) string { return p.Key })
}

// sorted checks that the keys of a list strictly ascend. So they are unique, and
// equal contents have equal encodings.
func sorted[T any, K cmp.Ordered](field string, list []T, key func(T) K) error {
	for i := 1; i < len(list); i++ {
		switch a, b := key(list[i-1]), key(list[i]); {
		case a == b:
			return fmt.Errorf("%s: %s appears twice", field, show(b))
		case a > b:
			return fmt.Errorf("%s: %s comes after %s, but must be sorted", field, show(b), show(a))
		}
	}
	return nil
}

func show(v any) string {
	if s, is := v.(string); is {
		return strconv.Quote(s)
	}
	return fmt.Sprint(v)
}

// idsOf checks a list that is sorted by ID.
func idsOf[T any](field string, list []T, id func(T) ID) error {
	for _, x := range list {
		if id(x) >= maxID {
			return fmt.Errorf("%s: id %d is not below %d", field, id(x), maxID)
		}
	}
	return sorted(field, list, func(x T) uint64 { return uint64(id(x)) })
}
