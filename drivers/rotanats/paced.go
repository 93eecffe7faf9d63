package rotanats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// With slow handlers a pull for each message costs as much as the message. So the consumer's
// limit for unacknowledged messages is lowered to two, and one pull stays open for many: each
// acknowledgement brings a message. A stop then finds one message that was not begun, as it
// does with a pull each. In a cluster the limit stays: all its servers would have to agree
// about each change.
const (
	pacedEach    = 5 * time.Millisecond // messages that take longer are slow
	quickEach    = pacedEach / 2        // those that take less are quick again
	pacedAfter   = 16                   // slow batches in a row
	pacedAgain   = 10 * time.Second     // after they were quick
	pacedPending = 2
	paceTime     = 2 * time.Second
)

// pace adapts the limit to the time that messages take.
func (p *pump) pace(ctx context.Context) error {
	if p.slow++; p.each <= pacedEach {
		p.slow = 0
	}
	switch {
	case p.claim.Paced && p.each < quickEach:
		if err := p.limit(ctx, pending(p.s.set.Prefetch)); err != nil {
			return err
		}
		p.claim.Paced, p.quickSince = false, time.Now()
	case !p.claim.Paced && p.slow == pacedAfter && time.Since(p.quickSince) > pacedAgain && p.mayPace():
		err := p.limit(ctx, pacedPending)
		if err != nil && code(err) == 0 && !denied(err) {
			return err // perhaps it is done all the same
		}
		p.claim.Paced = err == nil
	default:
		return nil
	}
	p.resize()
	return nil
}

func (p *pump) mayPace() bool {
	return p.claim.all && p.s.set.Prefetch > pacedPending && p.nc.ConnectedClusterName() == ""
}

// pending is the most unacknowledged messages of a consumer, for a prefetch.
func pending(prefetch int) int { return 2 * prefetch }

// limit changes the most unacknowledged messages of the consumer.
func (p *pump) limit(ctx context.Context, most int) error {
	ctx, cancel := context.WithTimeout(ctx, paceTime)
	defer cancel()
	var have struct {
		answer
		Config map[string]json.RawMessage `json:"config"` // nothing else in it changes
	}
	err := p.s.ask(ctx, "CONSUMER.INFO."+p.s.set.Stream+"."+p.claim.Consumer, nil, &have)
	if err == nil && have.Config == nil {
		err = errors.New("the server tells no configuration")
	}
	if err != nil {
		return fmt.Errorf("rotanats: consumer %s: %w", p.claim.Consumer, err)
	}
	have.Config["max_ack_pending"] = json.RawMessage(strconv.Itoa(most))
	q := map[string]any{"stream_name": p.s.set.Stream, "config": have.Config, "action": "update"}
	verb := "CONSUMER.CREATE." + p.s.set.Stream + "." + p.claim.Consumer + "." + p.own.Partition()
	if err := p.s.askIf(ctx, p.own.Check, verb, q, &consumerInfo{}); err != nil {
		return fmt.Errorf("rotanats: consumer %s: permit %d unacknowledged messages: %w", p.claim.Consumer, most, err)
	}
	return nil
}
