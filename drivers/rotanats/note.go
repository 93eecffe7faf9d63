package rotanats

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota"
)

// A post is read from a bucket that others may write to as well. What it says is
// checked before anything is done by it: by a name in it a consumer is removed, by
// its start messages are skipped, by its token an owner gives up.

// nameTail is how many random letters end the name of a consumer.
const nameTail = 6

// consumerName is a new name for a consumer of one partition and one ownership.
func consumerName(durable, short string, token rota.Token) string {
	return fmt.Sprintf("%s_%s_%d_%s", durable, short, token, rand.Text()[:nameTail])
}

// consumerToken reads the token from a name that consumerName may have made.
func consumerToken(name, durable, short string) (rota.Token, bool) {
	rest, ok := strings.CutPrefix(name, durable+"_"+short+"_")
	number, tail, ok2 := strings.Cut(rest, "_")
	token, err := strconv.ParseUint(number, 10, 64)
	if !ok || !ok2 || err != nil || strconv.FormatUint(token, 10) != number || len(tail) != nameTail {
		return 0, false
	}
	other := func(r rune) bool { return !('A' <= r && r <= 'Z' || '2' <= r && r <= '7') }
	return rota.Token(token), strings.IndexFunc(tail, other) < 0
}

// likely tells whether a token can have been granted by now. Its upper half is the
// incarnation of a plan: that of the wall clock, in units of 4 s since 1970, or the
// one after the last. Clocks may differ by a day, and ours is at least at own.
func likely(token, own rota.Token, now time.Time) bool {
	const day = 24 * 60 * 60 / 4
	era := uint64(max(now.Unix(), 0) / 4)
	return uint64(token)>>32 <= max(era, uint64(own)>>32)+day
}

// readPost reads the post of a partition. It leaves out what cannot be true and
// tells what that was: an honest owner then goes on as if it had not been noted.
func readPost(text []byte, durable, short string, own rota.Token, now time.Time) (p post, wrong []string) {
	if err := json.Unmarshal(text, &p); err != nil {
		return post{}, []string{fmt.Sprintf("it cannot be read (%.80v), so the partition is begun anew", err)}
	}
	if !likely(p.Token, own, now) {
		wrong = append(wrong, fmt.Sprintf("no plan has granted token %d yet", p.Token))
		p.Token = 0
	}
	limit := own // a consumer of a successor is not ours to use or to remove
	if p.Token > 0 {
		limit = min(limit, p.Token)
	}
	if p.Token > own {
		limit = p.Token // it is a successor's, and nothing is done by it
	}
	for _, n := range []struct {
		what string
		name *string
	}{{"consumer", &p.Consumer}, {"former", &p.Former}, {"coming", &p.Coming}, {"stray", &p.Stray}} {
		token, ok := consumerToken(*n.name, durable, short)
		if *n.name == "" || ok && token <= limit {
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%s %.80q is not a consumer that rota has made for the partition", n.what, *n.name))
		*n.name = ""
	}
	if p.Consumer == "" {
		p.Released, p.Next = false, 0
	}
	if p.Each < 0 || p.Each > ackTime {
		p.Each = 0
	}
	return p, wrong
}

// begin is the number of the message that a new consumer begins with: behind what
// was settled, by the post and by the broker. If that lies behind the end of the
// stream, one of them is wrong, or the stream was set back to an earlier state; what
// is beyond its end is not believed, and ok is false.
func begin(start, floor, last uint64) (from uint64, ok bool) {
	if floor > last {
		return 1, false
	}
	if start > last+1 {
		return floor + 1, false
	}
	return max(start, floor+1), true
}
