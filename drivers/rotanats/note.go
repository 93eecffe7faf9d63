package rotanats

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
)

// A note is read from a bucket that others may write to as well, so its fields are
// checked before they are used: a name in it can cause a consumer to be removed, its
// start can skip messages, and its token can make an owner give up.

// nameTail is the number of random letters at the end of a consumer's name.
const nameTail = 6

// consumerName returns a new name for a consumer of one partition and one ownership.
func consumerName(durable, short string, token rota.Token) string {
	return fmt.Sprintf("%s_%s_%d_%s", durable, short, token, rand.Text()[:nameTail])
}

// consumerToken returns the token in a name. ok is false if consumerName cannot have
// made the name.
func consumerToken(name, durable, short string) (_ rota.Token, ok bool) {
	rest, prefixed := strings.CutPrefix(name, durable+"_"+short+"_")
	number, tail, cut := strings.Cut(rest, "_")
	token, err := strconv.ParseUint(number, 10, 64)
	if !prefixed || !cut || err != nil || strconv.FormatUint(token, 10) != number || len(tail) != nameTail {
		return 0, false
	}
	other := func(r rune) bool { return !('A' <= r && r <= 'Z' || '2' <= r && r <= '7') }
	return rota.Token(token), strings.IndexFunc(tail, other) < 0
}

// likely tells whether a token can have been granted by now. The upper half of a token
// is the incarnation of its plan: the wall clock in units of 4 s since 1970, or one more
// than the last incarnation. Clocks may differ by a day. The incarnation of own counts
// too, since it may be ahead of our clock.
func likely(token, own rota.Token, now time.Time) bool {
	const day = 24 * 60 * 60 / 4
	era := uint64(max(now.Unix(), 0) / 4)
	return uint64(token)>>32 <= max(era, uint64(own)>>32)+day
}

// readNote parses the note of a partition. It clears fields that cannot be true and
// returns a sentence for each: the owner goes on as if they had not been noted.
func readNote(text []byte, r *reader, short string, own rota.Token, now time.Time) (p note, wrong []string) {
	if err := json.Unmarshal(text, &p); err != nil {
		return note{}, []string{fmt.Sprintf("it cannot be read (%.80v), so it counts as none", err)}
	}
	if p.Group != "" && !address.Plain(p.Group) {
		wrong = append(wrong, fmt.Sprintf("%.80q is not the name of a group", p.Group))
		p.Group = ""
	}
	if !likely(p.Before, own, now) {
		wrong = append(wrong, fmt.Sprintf("no other group can have had token %d yet", p.Before))
		p.Before = 0
	}
	if !likely(p.Token, own, now) {
		wrong = append(wrong, fmt.Sprintf("no plan has granted token %d yet", p.Token))
		p.Token = 0
	}
	limit := own // a successor's consumer must be neither used nor removed
	switch {
	case r.others(p.Group):
		limit = math.MaxUint64 // its tokens are of another plan
	case p.Token > own:
		limit = p.Token // a successor's note: the caller uses none of its names
	case p.Token > 0:
		limit = p.Token
	}
	limit = max(limit, p.Before)
	for _, n := range []struct {
		what string
		name *string
	}{{"consumer", &p.Consumer}, {"former", &p.Former}, {"coming", &p.Coming}, {"stray", &p.Stray}} {
		token, ok := consumerToken(*n.name, r.durable, short)
		if *n.name == "" || ok && token <= limit {
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%s %.80q is not a consumer that rota has made for the partition", n.what, *n.name))
		*n.name = ""
	}
	if p.Consumer == "" {
		p.Released, p.Next, p.Reply = false, 0, ""
	}
	if p.Reply != "" && !ackOf(p.Reply, p.Consumer) { // acknowledgements would go elsewhere
		wrong = append(wrong, fmt.Sprintf("%.80q is not a reply subject of its consumer", p.Reply))
		p.Reply = ""
	}
	if p.Back && p.Reply == "" {
		p.Released = false
	}
	if p.Prefetch < 0 {
		p.Prefetch = 0
	}
	if p.Each < 0 || p.Each > ackTime {
		p.Each = 0
	}
	return p, wrong
}

// begin returns the sequence of the first message of a new consumer: the one after the
// last settled message, as the note (start) and the broker (floor) know it. If one of
// them lies beyond the end of the stream (last), it is wrong or the stream was restored
// to an earlier state: that one is ignored, and ok is false.
func begin(start, floor, last uint64) (from uint64, ok bool) {
	if floor > last {
		return 1, false
	}
	if start > last+1 {
		return floor + 1, false
	}
	return max(start, floor+1), true
}
