package rotarabbit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// queues say which queues are the partitions.
type queues struct {
	names    []string // in the order of the URL
	patterns []string // names with stars, each of which stands for any text
}

// mostQueues is how many partitions a group can have.
const mostQueues = 32768

// readQueues reads names with commas between, of which each may have one range, such as
// orders.{0..63}, or stars.
func readQueues(text string) (q queues, err error) {
	seen := map[string]bool{}
	for item := range strings.SplitSeq(text, ",") {
		names, err := readRange(item)
		if err != nil {
			return queues{}, err
		}
		if len(q.names)+len(names) > mostQueues {
			return queues{}, fmt.Errorf("more than %d queues: a group has at most that many partitions", mostQueues)
		}
		for _, name := range names {
			switch {
			case !validQueue(name):
				return queues{}, fmt.Errorf("%.40q is not the name of a queue: write 1 to 200 bytes of UTF-8 without control characters", name)
			case seen[name]:
				return queues{}, fmt.Errorf("%.40q is there twice: write each once", name)
			case strings.Contains(name, "*"):
				q.patterns = append(q.patterns, name)
			default:
				q.names = append(q.names, name)
			}
			seen[name] = true
		}
	}
	return q, nil
}

var errRange = errors.New("a range is written {0..63}: the first number, two dots, the last")

// readRange returns the names of an item with a range, or the item itself.
func readRange(item string) ([]string, error) {
	before, rest, open := strings.Cut(item, "{")
	if !open {
		if strings.Contains(item, "}") {
			return nil, errRange
		}
		return []string{item}, nil
	}
	inside, after, shut := strings.Cut(rest, "}")
	from, to, dots := strings.Cut(inside, "..")
	first, err := strconv.ParseUint(from, 10, 31)
	last, err2 := strconv.ParseUint(to, 10, 31)
	if !shut || !dots || err != nil || err2 != nil || first > last || strings.ContainsAny(after, "{}*") || strings.Contains(before, "*") {
		return nil, errRange
	}
	if last-first >= mostQueues {
		return nil, fmt.Errorf("more than %d queues: a group has at most that many partitions", mostQueues)
	}
	var names []string
	for n := first; n <= last; n++ {
		names = append(names, before+strconv.FormatUint(n, 10)+after)
	}
	return names, nil
}

// validQueue tells whether a name can be that of a queue and of a partition.
func validQueue(name string) bool {
	return name != "" && len(name) <= 200 && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

func (q queues) empty() bool { return len(q.names)+len(q.patterns) == 0 }

// matches tells whether a queue is one of them.
func (q queues) matches(name string) bool {
	return slices.Contains(q.names, name) || slices.ContainsFunc(q.patterns, func(p string) bool { return like(p, name) })
}

// like tells whether a name is like a pattern. Each star stands for any text.
func like(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
