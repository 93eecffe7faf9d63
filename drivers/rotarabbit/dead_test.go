package rotarabbit

import (
	"bytes"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
)

// delivered is what a consumer gets of a publication.
func delivered(p amqp.Publishing) *amqp.Delivery {
	return &amqp.Delivery{Headers: p.Headers, MessageId: p.MessageId, Timestamp: p.Timestamp, Body: p.Body, RoutingKey: "rota.dead"}
}

func once(string) int { return 1 }

func TestLettersAreKeptWhole(t *testing.T) {
	sent, dead := time.Unix(1700000000, 0), time.Unix(1700000100, 123456789)
	for name, msg := range map[string]rota.Message{
		"everything": {ID: "m1", Partition: "q", Key: []byte("k"), Value: []byte("v"), Headers: []rota.Header{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")}}, Time: sent, Attempt: 3},
		"nothing":    {Partition: "q", Attempt: 1},
	} {
		was := rota.Letter{ID: "ABC", Message: msg, Group: "g", Reason: "bad\nthing", Time: dead, Former: "DEF"}
		is := readLetter(delivered(writeLetter(&was, "ABC")), once)
		if is.ID != "ABC" || is.Group != "g" || is.Reason != "bad thing" || !is.Time.Equal(dead) || is.Former != "DEF" {
			t.Errorf("%s: %+v", name, is)
		}
		m := is.Message
		if m.ID != msg.ID || m.Partition != "q" || !bytes.Equal(m.Key, msg.Key) || !bytes.Equal(m.Value, msg.Value) || !m.Time.Equal(msg.Time) || m.Attempt != msg.Attempt || len(m.Headers) != len(msg.Headers) {
			t.Errorf("%s: %+v, want %+v", name, m, msg)
		}
		for i, h := range m.Headers {
			if h.Key != msg.Headers[i].Key || !bytes.Equal(h.Value, msg.Headers[i].Value) {
				t.Errorf("%s: header %s is %q", name, h.Key, h.Value)
			}
		}
	}
}

func TestForeignLetters(t *testing.T) {
	for _, c := range []struct {
		name            string
		headers         amqp.Table
		partition, says string
	}{
		{"no headers", nil, "", "no headers that rota has written"},
		{"by the broker", amqp.Table{"x-first-death-queue": "orders.1", "x-first-death-reason": "delivery_limit"}, "orders.1", "dead-lettered by the broker: delivery_limit"},
		{"half of ours", amqp.Table{headerLetter: "ABC", headerOf: "q"}, "", "no headers that rota has written"},
		{"numbers", amqp.Table{headerLetter: int64(7), headerAttempts: int32(1)}, "", "no headers that rota has written"},
		{"a bad ID", amqp.Table{headerLetter: "a b", headerOf: "q", headerAttempts: "1", headerTime: "2026-01-02T03:04:05Z"}, "", "no headers that rota has written"},
	} {
		l := readLetter(&amqp.Delivery{Headers: c.headers, Body: []byte("x")}, once)
		if l.Message.Partition != c.partition || !strings.Contains(l.Reason, c.says) || !validLetter(l.ID) || l.Message.Attempt != 1 {
			t.Errorf("%s: %+v", c.name, l)
		}
	}
}

func TestManyHeadersAreLeftOut(t *testing.T) {
	var headers []rota.Header
	for i := range 200 {
		headers = append(headers, rota.Header{Key: strings.Repeat("k", 100) + string(rune('a'+i%26)) + strings.Repeat("x", i), Value: make([]byte, 1000)})
	}
	p := writeLetter(&rota.Letter{Message: rota.Message{Partition: "q", Headers: headers, Attempt: 1}}, "ABC")
	size := 0
	for k, v := range p.Headers {
		size += len(k) + len(v.(string))
	}
	if size > 110<<10 || len(p.Headers) < 50 {
		t.Errorf("%d headers with %d bytes", len(p.Headers), size)
	}
}

// FuzzLetter reads letters with any headers.
func FuzzLetter(f *testing.F) {
	f.Add("ABC", "g", "q", "1", "2026-01-02T03:04:05Z", "id", []byte("v"))
	f.Add("", "", "", "", "", "", []byte(nil))
	f.Add("-", "\x00", "\xff", "99999999999", "now", "x", []byte("\x00"))
	f.Fuzz(func(t *testing.T, id, group, partition, attempts, at, message string, value []byte) {
		d := &amqp.Delivery{MessageId: message, Body: value, Headers: amqp.Table{headerLetter: id, headerGroup: group, headerOf: partition, headerAttempts: attempts,
			headerTime: at, headerSent: at, headerReason: group, headerFormer: id, "x-first-death-queue": partition, "n": int64(1), "t": amqp.Table{"a": []any{true}}}}
		l := readLetter(d, once)
		if !validLetter(l.ID) || l.Message.Attempt < 1 || !bytes.Equal(l.Message.Value, value) {
			t.Errorf("%+v", l)
		}
		for _, h := range l.Message.Headers {
			if reserved(h.Key) {
				t.Errorf("header %s is the message's", h.Key)
			}
		}
	})
}

// FuzzFormerGroup reads refusals of a broker.
func FuzzFormerGroup(f *testing.F) {
	const refusal = "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'rota.reads.q' in vhost '/': received the value 'rota.group.b' of type 'longstr' but current is the value 'rota.group.a' of type 'longstr'"
	if got := formerGroup(&amqp.Error{Reason: refusal}); got != "a" {
		f.Errorf("the former group is %q, want a", got)
	}
	f.Add(refusal)
	f.Add("but current is none")
	f.Fuzz(func(t *testing.T, reason string) {
		if group := formerGroup(&amqp.Error{Reason: reason}); !strings.Contains(reason, group) {
			t.Errorf("%q names group %q", reason, group)
		}
	})
}
