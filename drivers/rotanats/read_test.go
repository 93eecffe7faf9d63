package rotanats

import (
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
		p.claim.next = 42
		if err := p.readMessage(msg); err != nil {
			b.Fatal(err)
		}
	}
}
