package record

import (
	"fmt"
	"strconv"
)

// String returns the session as it is written everywhere: 16 lower-case hex digits.
func (s Session) String() string { return fmt.Sprintf("%016x", uint64(s)) }

// String returns "incarnation.counter" in decimal.
func (t Token) String() string {
	return strconv.FormatUint(uint64(t.Incarnation()), 10) + "." + strconv.FormatUint(uint64(t.Counter()), 10)
}

func (m Mode) String() string        { return word(modes[:], uint8(m)) }
func (s RowState) String() string    { return word(rowStates[:], uint8(s)) }
func (r Reason) String() string      { return word(reasons[:], uint8(r)) }
func (s MemberState) String() string { return word(memberStates[:], uint8(s)) }

var (
	modes        = [...]string{Incremental: "incremental", Eager: "eager"}
	rowStates    = [...]string{Free: "FREE", Owned: "OWNED", Revoking: "REVOKING"}
	memberStates = [...]string{Live: "LIVE", Leaving: "LEAVING", Evicted: "EVICTED", Dead: "DEAD", Left: "LEFT"}
	reasons      = [...]string{
		NoReason: "", Paused: "paused", Removed: "removed", Returning: "returning",
		Quarantined: "quarantined", Unplaced: "unplaced", Failing: "failing",
	}
)

// word accepts unknown values, too, because they may come from a record that is not
// checked yet.
func word(words []string, i uint8) string {
	if int(i) < len(words) {
		return words[i]
	}
	return "unknown " + strconv.Itoa(int(i))
}
