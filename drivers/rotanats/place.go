package rotanats

import (
	"errors"
	"strconv"
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
	var field string
	for _, to := range []*uint64{&at.tries, &at.sequence, &at.delivery} {
		if field, rest, ok = strings.Cut(rest, "."); !ok {
			return at, errNoPlace
		}
		if *to, err = strconv.ParseUint(field, 10, 64); err != nil {
			return at, errNoPlace
		}
	}
	field, _, ok = strings.Cut(rest, ".")
	if at.time, err = strconv.ParseInt(field, 10, 64); err != nil || !ok {
		return at, errNoPlace
	}
	return at, nil
}
