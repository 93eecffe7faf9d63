package rotanats

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
)

// letterSource is a source that knows its names and is connected to nothing.
func letterSource() *source {
	return &source{link: &link{set: &address.Settings{Stream: "S", Dead: "dead.S"}}}
}

func storedLetter(subject string, hdrs []byte) *storedMessage {
	var got storedMessage
	got.Message.Subject, got.Message.Seq, got.Message.Hdrs, got.Message.Data, got.Message.Time = subject, 7, hdrs, []byte("x"), time.Unix(1, 0)
	return &got
}

func encoded(h nats.Header) []byte {
	var b strings.Builder
	b.WriteString("NATS/1.0\r\n")
	for k, vs := range h {
		for _, v := range vs {
			b.WriteString(k + ": " + v + "\r\n")
		}
	}
	return []byte(b.String() + "\r\n")
}

func good() nats.Header {
	return nats.Header{headerStream: {"S"}, headerOf: {"s.1"}, headerPosition: {"12"}, headerAttempts: {"3"}, headerGroup: {"g"}, headerReason: {"no good"},
		headerMessage: {"m-1"}, headerSent: {"2026-11-16T10:00:00Z"}, headerTime: {"2026-11-16T11:00:00Z"}, headerFormer: {"5"}, "App": {"kept"}, "rota-app": {"not kept"}}
}

func TestALetterIsRead(t *testing.T) {
	l := letterSource().readLetter(storedLetter("dead.S.s.1", encoded(good())))
	m := &l.Message
	if l.ID != "7" || l.Group != "g" || l.Reason != "no good" || l.Former != "5" || l.Time.Hour() != 11 ||
		m.Partition != "s.1" || m.ID != "m-1" || m.Position != 12 || m.Attempt != 3 || m.Time.Hour() != 10 || string(m.Value) != "x" {
		t.Errorf("read %+v", l)
	}
	if len(m.Headers) != 1 || m.Headers[0].Key != "App" {
		t.Errorf("its headers are %v", m.Headers)
	}
}

// TestForgedHeadersAreNoHistory: anybody who may publish can write such headers, and a
// letter of another partition or stream is none of this one.
func TestForgedHeadersAreNoHistory(t *testing.T) {
	for name, forge := range map[string]func(nats.Header){
		"other stream":      func(h nats.Header) { h.Set(headerStream, "T") },
		"other partition":   func(h nats.Header) { h.Set(headerOf, "s.2") },
		"no position":       func(h nats.Header) { h.Del(headerPosition) },
		"negative position": func(h nats.Header) { h.Set(headerPosition, "-1") },
		"no attempts":       func(h nats.Header) { h.Set(headerAttempts, "0") },
		"too many attempts": func(h nats.Header) { h.Set(headerAttempts, "99999999999") },
		"no time":           func(h nats.Header) { h.Set(headerTime, "yesterday") },
	} {
		h := good()
		forge(h)
		l := letterSource().readLetter(storedLetter("dead.S.s.1", encoded(h)))
		if l.Group != "" || l.Former != "" || l.Message.Attempt != 1 || l.Message.ID != "S_dead-7" || !strings.Contains(l.Reason, "not known") || l.Message.Partition != "s.1" {
			t.Errorf("%s: read %+v", name, l)
		}
	}
}

func FuzzLetter(f *testing.F) {
	f.Add("dead.S.s.1", encoded(good()))
	f.Add("dead.S.s.1", []byte("NATS/1.0 503\r\n\r\n"))
	f.Add("other", []byte{})
	f.Fuzz(func(t *testing.T, subject string, hdrs []byte) {
		l := letterSource().readLetter(storedLetter(subject, hdrs))
		if l.ID != "7" || l.Message.Attempt < 1 || len(l.Reason) > 500 || !utf8.ValidString(l.Reason) || len(l.Message.ID) > 500 || len(l.Group) > 500 {
			t.Errorf("read %+v", l)
		}
		for _, h := range l.Message.Headers {
			if reserved(h.Key) {
				t.Errorf("the message has header %q", h.Key)
			}
		}
	})
}
