package rotanats

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// BenchmarkReadMessage measures the time that the source itself spends on a message.
func BenchmarkReadMessage(b *testing.B) {
	p := &pump{s: &source{link: &link{set: &settings{Stream: "ORDERS"}}}, claim: &claim{}}
	msg := &nats.Msg{Subject: "orders.17", Data: make([]byte, 128),
		Reply: "$JS.ACK.ORDERS.rota_0123456789abcdef_12_ABCDEF.1.1234567.42.1700000000123456789.1000"}
	b.ReportAllocs()
	for b.Loop() {
		if len(p.buf) == maxBatch {
			p.buf, p.acks = p.buf[:0], p.acks[:0]
		}
		p.claim.next, p.received = 42, 0
		if err := p.readMessage(b.Context(), msg); err != nil {
			b.Fatal(err)
		}
	}
}

// TestDeliveriesOfANewLeader reads what a leader of the consumer may send that has not heard
// of the last deliveries: they are skipped if they have arrived before, and anything else
// that does not continue the sequence is a gap.
func TestDeliveriesOfANewLeader(t *testing.T) {
	for _, c := range []struct {
		what                      string
		tries, sequence, delivery uint64
		queue                     bool
		next                      uint64 // afterwards; 0 for a gap
	}{
		{"the next", 1, 205, 11, false, 12},
		{"the last again", 1, 200, 10, false, 11},
		{"an earlier one again", 1, 150, 7, false, 11},
		{"many are missing", 1, 407, 60, false, 0},
		{"an old number with a new message", 1, 201, 10, false, 0},
		{"a new number with an old message", 1, 200, 11, false, 0},
		{"a redelivery", 2, 200, 11, false, 0},
		{"a redelivery under its old number", 2, 200, 10, false, 0},
		{"the last again, on a work queue", 1, 200, 10, true, 0},
	} {
		p := &pump{s: &source{link: &link{set: &settings{Stream: "ORDERS"}}}, claim: &claim{all: !c.queue, next: 11}, received: 200}
		err := p.readMessage(t.Context(), &nats.Msg{Reply: fmt.Sprintf("$JS.ACK.ORDERS.c.%d.%d.%d.1700000000123456789.0", c.tries, c.sequence, c.delivery)})
		if c.next == 0 && !errors.Is(err, errGap) || c.next > 0 && (err != nil || p.claim.next != c.next || len(p.buf) != int(c.next-11)) {
			t.Errorf("%s: %v, next is %d, %d to deliver", c.what, err, p.claim.next, len(p.buf))
		}
	}
}

// TestRedeliveriesOfWhatWasReadFromTheStream reads what the server sends once more because nobody
// listened when it was sent first: it is skipped if it was read from the stream meanwhile.
func TestRedeliveriesOfWhatWasReadFromTheStream(t *testing.T) {
	for _, c := range []struct {
		what                      string
		tries, sequence, delivery uint64
		next                      uint64 // afterwards; 0 for a gap
	}{
		{"the first of them", 2, 190, 11, 12},
		{"the last of them", 2, 200, 11, 12},
		{"once more", 3, 200, 11, 12},
		{"one that was handled before them", 2, 180, 11, 0},
		{"one that came behind them", 2, 210, 11, 0},
		{"one that nobody has had", 2, 230, 11, 0},
		{"of which others are missing", 2, 200, 12, 0},
		{"under its old number", 2, 200, 10, 0},
		{"for the first time", 1, 200, 11, 0},
	} {
		p := &pump{s: &source{link: &link{set: &settings{Stream: "ORDERS"}}}, claim: &claim{all: true, next: 11}, received: 220, read: stretch{180, 200}}
		err := p.readMessage(t.Context(), &nats.Msg{Reply: fmt.Sprintf("$JS.ACK.ORDERS.c.%d.%d.%d.1700000000123456789.0", c.tries, c.sequence, c.delivery)})
		if c.next == 0 && !errors.Is(err, errGap) || c.next > 0 && (err != nil || p.claim.next != c.next) || len(p.buf) > 0 {
			t.Errorf("%s: %v, next is %d, %d to deliver", c.what, err, p.claim.next, len(p.buf))
		}
	}
}

// TestAckSubjects makes the ack subject of another delivery, in both forms that servers use.
func TestAckSubjects(t *testing.T) {
	for _, reply := range []string{
		"$JS.ACK.ORDERS.c.1.200.10.1700000000123456789.5",
		"$JS.ACK.hub.ACCOUNT.ORDERS.c.3.200.10.1700000000123456789.5",
		"$JS.ACK._.ACCOUNT.ORDERS.c.3.200.10.1700000000123456789.5.random",
	} {
		made := ackSubject(reply, 207, 12, 1800000000000000001)
		got, err := readAckInfo(made)
		if want := (ackInfo{1, 207, 12, 1800000000000000001}); err != nil || got != want {
			t.Errorf("%s: read %+v, %v", made, got, err)
		}
		prefix, _, _ := strings.Cut(reply, ".c.")
		if !strings.HasPrefix(made, prefix+".c.1.") || strings.Count(made, ".") != strings.Count(reply, ".") {
			t.Errorf("made %s like %s", made, reply)
		}
	}
}
