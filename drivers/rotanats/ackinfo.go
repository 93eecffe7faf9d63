package rotanats

import (
	"errors"
	"math"
	"strings"
)

// A place is what the reply subject of a delivered message tells of it.
type place struct {
	tries    uint64 // how often it was delivered
	sequence uint64 // in the stream
	delivery uint64 // number of the delivery
	time     int64  // nanoseconds
}

var errNoPlace = errors.New("it does not say where it comes from")

// readPlace reads
//
//	$JS.ACK.STREAM.CONSUMER.TRIES.SEQUENCE.DELIVERY.TIME.PENDING
//	$JS.ACK.DOMAIN.ACCOUNT.STREAM.CONSUMER.TRIES.SEQUENCE.DELIVERY.TIME.PENDING…
//
// from the one place where it is: once per message.
func readPlace(reply string) (at place, err error) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return at, errNoPlace
	}
	skip := 2
	if strings.Count(rest, ".") >= 8 {
		skip = 4
	}
	for range skip {
		if _, rest, ok = strings.Cut(rest, "."); !ok {
			return at, errNoPlace
		}
	}
	for _, to := range [...]*uint64{&at.tries, &at.sequence, &at.delivery} {
		if *to, rest, ok = cutNumber(rest); !ok {
			return at, errNoPlace
		}
	}
	rest, before := strings.CutPrefix(rest, "-") // 1970
	nanos, _, ok := cutNumber(rest)
	if !ok || nanos > math.MaxInt64 && !(before && nanos == 1<<63) {
		return at, errNoPlace
	}
	if at.time = int64(nanos); before {
		at.time = -at.time
	}
	return at, nil
}

// cutNumber reads digits up to a dot: as strconv would, at a third of the price.
func cutNumber(s string) (n uint64, rest string, ok bool) {
	for i := range len(s) {
		c := s[i]
		if c == '.' {
			return n, s[i+1:], i > 0
		}
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			break
		}
		n = 10*n + d
	}
	return 0, "", false
}
