package rotaactive

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/rota-dev/rota"
)

// The properties of an AMQP message that are headers to STOMP, by their names there.
const (
	contentType   = "content-type"
	correlationID = "correlation-id"
	replyTo       = "reply-to"
	messageType   = "type"
)

// readMessage makes a delivery of a message.
func readMessage(m *amqp.Message) *delivery {
	d := &delivery{ack: m}
	d.Value = body(m)
	add := func(key string, v any) { d.Headers = append(d.Headers, rota.Header{Key: key, Value: text(v)}) }
	if p := m.Properties; p != nil {
		if p.MessageID != nil {
			d.ID = string(text(p.MessageID))
		}
		if p.CreationTime != nil {
			d.Time = *p.CreationTime
		}
		if p.GroupID != nil {
			d.Key = []byte(*p.GroupID)
		}
		for _, h := range []struct {
			key string
			v   *string
		}{{contentType, p.ContentType}, {replyTo, p.ReplyTo}, {messageType, p.Subject}} {
			if h.v != nil {
				add(h.key, *h.v)
			}
		}
		if p.CorrelationID != nil {
			add(correlationID, p.CorrelationID)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(m.ApplicationProperties)) {
		if k == keyHeader {
			d.Key = text(m.ApplicationProperties[k])
		} else {
			add(k, m.ApplicationProperties[k])
		}
	}
	return d
}

// body is the message's content: bytes and text as they are, anything else as JSON where
// it can be.
func body(m *amqp.Message) []byte {
	switch {
	case m.Value != nil:
		return text(m.Value)
	case len(m.Sequence) > 0:
		return text(m.Sequence)
	}
	return slices.Concat(m.Data...)
}

// text returns a value as bytes.
func text(v any) []byte {
	switch v := v.(type) {
	case []byte:
		return v
	case string:
		return []byte(v)
	case amqp.UUID:
		return []byte(v.String())
	case map[string]any, []any:
		if b, err := json.Marshal(v); err == nil {
			return b
		}
	}
	return fmt.Append(nil, v)
}

// writeMessage makes a message to be sent.
func writeMessage(l *outgoing) *amqp.Message {
	to := node(l.queue)
	m := amqp.NewMessage(l.Value)
	now := time.Now()
	m.Properties = &amqp.MessageProperties{To: &to, CreationTime: &now}
	if l.ID != "" {
		m.Properties.MessageID = l.ID
	}
	m.Header = &amqp.MessageHeader{Durable: !l.expires}
	if l.expires {
		m.Header.TTL = questionTime
	}
	if l.replyTo != "" {
		m.Properties.ReplyTo = &l.replyTo
	}
	if l.Key != nil {
		m.ApplicationProperties = map[string]any{keyHeader: string(l.Key)}
	}
	for _, h := range l.Headers {
		v := string(h.Value)
		switch {
		case h.Key == contentType:
			m.Properties.ContentType = &v
		case h.Key == messageType:
			m.Properties.Subject = &v
		case h.Key == correlationID:
			m.Properties.CorrelationID = v
		case h.Key == replyTo:
			if l.replyTo == "" {
				m.Properties.ReplyTo = &v
			}
		case h.Key != "" && !ofProtocol[h.Key]:
			if m.ApplicationProperties == nil {
				m.ApplicationProperties = map[string]any{}
			}
			m.ApplicationProperties[h.Key] = v
		}
	}
	return m
}
