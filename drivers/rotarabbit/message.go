package rotarabbit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rota-dev/rota"
)

// readMessage makes a message of a delivery. RabbitMQ numbers nothing, and gives no IDs: a
// message has the ID that its publisher gave it, or none.
func readMessage(d *amqp.Delivery) rota.Message {
	m := rota.Message{ID: d.MessageId, Value: d.Body, Time: d.Timestamp}
	if d.Exchange != "" { // otherwise the routing key is the queue
		m.Key = []byte(d.RoutingKey)
	}
	if len(d.Headers) > 0 {
		for _, key := range slices.Sorted(maps.Keys(d.Headers)) {
			m.Headers = append(m.Headers, rota.Header{Key: key, Value: headerValue(d.Headers[key])})
		}
	}
	for _, p := range [...]struct{ name, value string }{
		{"content-type", d.ContentType}, {"content-encoding", d.ContentEncoding}, {"correlation-id", d.CorrelationId},
		{"reply-to", d.ReplyTo}, {"expiration", d.Expiration}, {"type", d.Type}, {"user-id", d.UserId}, {"app-id", d.AppId},
	} {
		if _, own := d.Headers[p.name]; p.value != "" && !own {
			m.Headers = append(m.Headers, rota.Header{Key: p.name, Value: []byte(p.value)})
		}
	}
	return m
}

// headerValue makes text of a value: a text as it is, a number in digits, a time as RFC 3339,
// what has parts as JSON.
func headerValue(v any) []byte {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return []byte(v)
	case []byte:
		return v
	case bool:
		return strconv.AppendBool(nil, v)
	case time.Time:
		return v.UTC().AppendFormat(nil, time.RFC3339)
	case amqp.Table, []any:
		if b, err := json.Marshal(v); err == nil {
			return b
		}
	}
	return fmt.Append(nil, v)
}
