package rotanats

import (
	"errors"
	"math"
	"strings"
)

// ackInfo is the information in the reply subject of a delivered message.
type ackInfo struct {
	tries    uint64 // how often the message was delivered
	sequence uint64 // of the message in the stream
	delivery uint64 // number of the delivery, counted by the consumer
	time     int64  // of the message, in nanoseconds since 1970
}

var errNoAckInfo = errors.New("its reply subject is not one of JetStream's")

// readAckInfo parses
//
//	$JS.ACK.STREAM.CONSUMER.TRIES.SEQUENCE.DELIVERY.TIME.PENDING
//	$JS.ACK.DOMAIN.ACCOUNT.STREAM.CONSUMER.TRIES.SEQUENCE.DELIVERY.TIME.PENDING…
//
// by hand, since it runs once per message.
func readAckInfo(reply string) (info ackInfo, err error) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return info, errNoAckInfo
	}
	skip := 2
	if strings.Count(rest, ".") >= 8 {
		skip = 4
	}
	for range skip {
		if _, rest, ok = strings.Cut(rest, "."); !ok {
			return info, errNoAckInfo
		}
	}
	for _, to := range [...]*uint64{&info.tries, &info.sequence, &info.delivery} {
		if *to, rest, ok = cutNumber(rest); !ok {
			return info, errNoAckInfo
		}
	}
	rest, negative := strings.CutPrefix(rest, "-") // before 1970
	nanos, _, ok := cutNumber(rest)
	if !ok || nanos > math.MaxInt64 && !(negative && nanos == 1<<63) {
		return info, errNoAckInfo
	}
	if info.time = int64(nanos); negative {
		info.time = -info.time
	}
	return info, nil
}

// ackOf tells whether a subject is the reply subject of a delivery of a consumer.
func ackOf(reply, consumer string) bool {
	_, err := readAckInfo(reply)
	tokens := strings.Split(reply, ".")
	at := 3
	if len(tokens) >= 11 {
		at = 5
	}
	return err == nil && len(tokens) > at && tokens[at] == consumer && !strings.ContainsAny(reply, " *>\t\r\n")
}

// cutNumber parses the digits up to a dot. It takes a third of strconv's time.
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
