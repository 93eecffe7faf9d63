package rotaactive

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/go-stomp/stomp/v3/frame"

	"github.com/rota-dev/rota"
)

// FuzzFrame reads any bytes as a frame. What a delivery keeps of it is sent and read as
// the same again.
func FuzzFrame(f *testing.F) {
	for _, s := range []string{
		"MESSAGE\nmessage-id:ID\\ca-1\nack:7\ntimestamp:1700000000000\ncolor:red\ncolor:blue\nJMSXGroupID:k\n\nbody\x00",
		"MESSAGE\ncontent-length:4\n\na\x00b\n\x00", "MESSAGE\n\n\x00", "ERROR\nmessage:no\n\ntrace\x00", "\n", "MESSAGE\n:\n\n\x00",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Contains(b, []byte("content-length:")) && len(b) < 1<<10 && !bytes.Contains(b, []byte("content-length:4\n")) {
			return // a length that is not there makes go-stomp reserve memory for it
		}
		in, err := frame.NewReader(bytes.NewReader(b)).Read()
		if err != nil || in == nil {
			return
		}
		if text := errorOf(in).Error(); strings.ContainsAny(text, "\r\n") || len(text) > 500 {
			t.Errorf("an error has %q", text)
		}
		d := readFrame(in)
		var out bytes.Buffer
		if err := frame.NewWriter(&out).Write(writeFrame(&outgoing{queue: "q", Message: d.Message})); err != nil {
			t.Fatal(err)
		}
		again, err := frame.NewReader(&out).Read()
		if err != nil {
			t.Fatalf("%q is sent as what cannot be read: %v", b, err)
		}
		got := readFrame(again)
		if !bytes.Equal(got.Value, d.Value) || string(got.Key) != string(d.Key) || !slices.EqualFunc(got.Headers, d.Headers, sameHeader) {
			t.Errorf("%+v was sent, and %+v arrives", d.Message, got.Message)
		}
	})
}

func sameHeader(a, b rota.Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }

// FuzzMessage reads any bytes as a message of AMQP.
func FuzzMessage(f *testing.F) {
	key := "k"
	for _, m := range []*amqp.Message{
		amqp.NewMessage([]byte("body")), {Value: "text"}, {Value: map[string]any{"a": 1}}, {Data: [][]byte{nil, {1}, {2}}},
		{Value: int64(7), Properties: &amqp.MessageProperties{MessageID: "id", GroupID: &key, CorrelationID: uint64(3)}, ApplicationProperties: map[string]any{"x": true}},
	} {
		b, err := m.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m amqp.Message
		if m.UnmarshalBinary(b) != nil {
			return
		}
		d := readMessage(&m)
		b, err := writeMessage(&outgoing{queue: "q", Message: d.Message}).MarshalBinary()
		if err != nil {
			t.Fatalf("%+v cannot be sent: %v", d.Message, err)
		}
		var again amqp.Message
		if err := again.UnmarshalBinary(b); err != nil {
			t.Fatalf("%+v is sent as what cannot be read: %v", d.Message, err)
		}
		if got := readMessage(&again); !bytes.Equal(got.Value, d.Value) || string(got.Key) != string(d.Key) {
			t.Errorf("%+v was sent, and %+v arrives", d.Message, got.Message)
		}
	})
}

// FuzzStatistics reads any bytes as an answer of the broker.
func FuzzStatistics(f *testing.F) {
	for _, s := range []string{
		`{"map":{"entry":[{"string":["destinationName","queue://q"]},{"string":"size","long":3},{"string":"averageMessageSize","double":10.5}]}}`,
		`{"map":{"entry":[{"string":1},{"long":2},{"string":["a"]},null]}}`, `{"map":{"entry":{}}}`, `{"map":""}`, `[]`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMap(b)
		if err != nil && !strings.HasPrefix(err.Error(), "the broker's statistics cannot be read") {
			t.Errorf("%v", err)
		}
		for k, v := range m {
			if k == "" || v == nil {
				t.Errorf("%q is read as %v", b, m)
			}
			number(v)
		}
	})
}

func TestStatisticsAreRead(t *testing.T) {
	m, err := readMap([]byte(`{"map":{"entry":[{"string":["destinationName","queue:\/\/q"]},{"string":"size","long":3}]}}`))
	if err != nil || m["destinationName"] != "queue://q" || number(m["size"]) != 3 {
		t.Errorf("read is %v, %v", m, err)
	}
}

// FuzzLetter: a letter that anybody has written has no history, or a whole one, and is
// stored and read as the same again.
func FuzzLetter(f *testing.F) {
	f.Add("2", "2026-01-02T03:04:05Z", "", "orders.1", "bad", "g", "abcdefghijklmnop", "red")
	f.Add("-1", "now", "x", "*", "a\r\nb\x00", strings.Repeat("x", 1000), "?", "")
	f.Fuzz(func(t *testing.T, attempts, dead, sent, of, reason, group, former, color string) {
		d := &delivery{id: "ID:1"}
		for k, v := range map[string]string{headerAttempts: attempts, headerTime: dead, headerSent: sent, headerQueue: of, headerReason: reason, headerGroup: group, headerFormer: former, "color": color} {
			d.Headers = append(d.Headers, rota.Header{Key: k, Value: []byte(v)})
		}
		l := readLetter(d)
		if strings.ContainsAny(l.Reason+l.Group+l.Former+l.ID, "\r\n\x00") || len(l.Reason) > 500 || len(l.ID) > 64 || l.Message.Attempt < 1 {
			t.Errorf("the letter is %+v", l)
		}
		if len(l.Message.Headers) != 1 || string(l.Message.Headers[0].Value) != color {
			t.Errorf("the message has the headers %v", l.Message.Headers)
		}
		if l.Message.Partition == "" {
			return
		}
		again := readLetter(&delivery{Message: writeLetter(&l)})
		if again.Reason != l.Reason || again.Group != l.Group || again.Former != l.Former || !again.Time.Equal(l.Time) || again.Message.Attempt != l.Message.Attempt || again.Message.Partition != l.Message.Partition {
			t.Errorf("%+v was stored, and %+v is read", l, again)
		}
	})
}

func TestBatchesFollowTheHandler(t *testing.T) {
	p := &pump{batch: 1}
	for _, c := range []struct {
		each time.Duration
		want int
	}{{20 * time.Microsecond, mostBatch}, {time.Millisecond, 50}, {time.Second, 1}} {
		for range 50 {
			p.learn(c.each*time.Duration(p.batch), p.batch)
		}
		if p.batch < c.want*9/10 || p.batch > c.want {
			t.Errorf("a message takes %v, and a batch has %d, want %d", c.each, p.batch, c.want)
		}
	}
}
