package rotanats

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// pullTiming is the expiry and the idle heartbeat of a pull request. Those of the
// first pull are short: in a cluster not every server may know a new consumer yet, and
// then the pull is lost. So are those after an election: a new leader announces itself a
// moment before it accepts pulls. A pull that came too early is repeated after a refusal.
type pullTiming struct{ expiry, heartbeat time.Duration }

var (
	firstPull   = pullTiming{2 * time.Second, 300 * time.Millisecond}
	refusedPull = pullTiming{0, 10 * time.Millisecond}
	electedPull = pullTiming{time.Second, 100 * time.Millisecond}
	laterPull   = pullTiming{30 * time.Second, 5 * time.Second}
)

// electionTime is how long a consumer of a cluster may have no leader. Without one the
// server answers as if there were no consumer.
const electionTime = time.Second

// pull keeps the window filled. It pulls half of the window or more at a time, so that
// requests stay few.
func (p *pump) pull() error {
	have := p.outstanding + len(p.in) + p.owed()
	if p.ending || have > p.window/2 || p.timing == refusedPull {
		return nil
	}
	n := p.window - have
	if p.large {
		n = 1
	}
	if err := p.nc.PublishRequest(p.next, p.sub.Subject, p.pullRequest(n)); err != nil {
		return fmt.Errorf("rotanats: pull messages of %s: %w", p.own.Partition(), err)
	}
	p.outstanding += n
	return nil
}

// pullRequest returns the text of a request for n messages. It is put together by hand, since
// with slow handlers there is one for each message.
func (p *pump) pullRequest(n int) []byte {
	field := func(name string, value int64) {
		p.request = append(append(p.request, name...), ':')
		p.request = strconv.AppendInt(p.request, value, 10)
	}
	p.request = append(p.request[:0], '{')
	field(`"batch"`, int64(n))
	field(`,"expires"`, int64(p.timing.expiry))
	field(`,"idle_heartbeat"`, int64(p.timing.heartbeat))
	if !p.large {
		field(`,"max_bytes"`, maxBytes)
	}
	p.request = append(p.request, '}')
	return p.request
}

// pullAnew pulls after earlier pulls were lost, perhaps. If they were not, more than the
// window is fetched, up to what the consumer permits to be unacknowledged.
func (p *pump) pullAnew(timing pullTiming) error {
	p.timing, p.outstanding = timing, 0
	return p.pull()
}

// readStatus reads a status message, which the broker sends about a pull. A pull ends
// when it has brought maxBytes. If it has brought none of them, the next message is
// larger than that and is pulled alone, without a limit.
func (p *pump) readStatus(status string, msg *nats.Msg) error {
	switch status {
	case "100": // an idle heartbeat: the pull is still open
		p.leaderless = time.Time{}
		return p.checkHeartbeat(msg)
	case "503": // nobody accepts pulls of this consumer
		if p.leaderless.IsZero() {
			p.leaderless = time.Now()
		}
		if p.nc.ConnectedClusterName() != "" && time.Since(p.leaderless) < electionTime {
			p.timing = refusedPull
			return nil
		}
	case "404", "408", "409":
		if msg.Header.Get("Description") == "Leadership Change" { // a new leader knows of our pulls, and has dropped them
			return p.pullAnew(electedPull)
		}
		open, err := strconv.Atoi(msg.Header.Get("Nats-Pending-Messages"))
		if err == nil {
			p.outstanding = max(0, p.outstanding-open)
			if strings.Contains(msg.Header.Get("Description"), "MaxBytes") && msg.Header.Get("Nats-Pending-Bytes") == strconv.Itoa(maxBytes) {
				p.large = true
			}
			return p.pull()
		}
	}
	return fmt.Errorf("rotanats: consumer %s: %s %s", p.claim.Consumer, status, msg.Header.Get("Description"))
}

// checkHeartbeat looks for a gap at the end of the delivery sequence. If a message went
// to another client that uses this consumer, its missing number would otherwise show
// only when the next message arrives. A replica may count a delivery a moment before
// it sends the message, so a gap counts only if a later heartbeat still shows it.
func (p *pump) checkHeartbeat(msg *nats.Msg) error {
	last, err := strconv.ParseUint(msg.Header.Get("Nats-Last-Consumer"), 10, 64)
	switch {
	case err != nil || last < p.claim.next:
		p.gapSince = time.Time{}
	case p.gapSince.IsZero():
		p.gapSince = time.Now()
	case time.Since(p.gapSince) > gapTime:
		return errGap
	}
	return nil
}

// atOnce is how many messages are delivered together. With those whose acknowledgement is
// delayed they are no more than maxBatch, which is what a crash can repeat.
func (p *pump) atOnce() int {
	return min(int(max(finishTime/max(p.each, 1), 1)), maxBatch-p.delayed.n)
}

// learn adapts the window to the time that a message takes, as a moving average.
func (p *pump) learn(took time.Duration, n int) {
	each := took / time.Duration(n)
	if p.each == 0 {
		p.each = each
	}
	p.each += (each - p.each) / 4
	p.resize()
}

// resize sizes the window: to work that can be finished before a stop, or, if the broker
// delivers no more than that, to a pull that stays open.
func (p *pump) resize() {
	p.window = p.s.set.Prefetch
	if !p.claim.Paced {
		p.window = int(min(max(finishTime/max(p.each, 1), 1), time.Duration(p.window)))
	}
}
