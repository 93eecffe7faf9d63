package rotaactive

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-stomp/stomp/v3/frame"

	"github.com/rota-dev/rota"
)

// keyHeader is the header that holds a message's key. The group of a JMS message would be
// the broker's own word for it, but ActiveMQ does not show it by STOMP.
const keyHeader = "rota_key"

// ofProtocol are headers of a frame that are not the message's own.
var ofProtocol = map[string]bool{
	frame.Destination: true, frame.MessageId: true, frame.Subscription: true, frame.Ack: true, frame.ContentLength: true, frame.Receipt: true,
	"timestamp": true, "expires": true, "priority": true, "persistent": true, "redelivered": true, "transformation": true, "original-destination": true,
	"transaction": true, "JMSXDeliveryCount": true, keyHeader: true, "JMSXGroupID": true, "JMSXGroupSeq": true,
}

// readFrame makes a delivery of a MESSAGE.
func readFrame(f *frame.Frame) *delivery {
	h := f.Header
	d := &delivery{id: h.Get(frame.MessageId), ack: h.Get(frame.Ack)}
	d.ID, d.Value = d.id, f.Body
	if ms, err := strconv.ParseInt(h.Get("timestamp"), 10, 64); err == nil && ms > 0 {
		d.Time = time.UnixMilli(ms)
	}
	if key, ok := h.Contains(keyHeader); ok {
		d.Key = []byte(key)
	}
	seen := map[string]bool{}
	for i := range h.Len() {
		k, v := h.GetAt(i)
		if !ofProtocol[k] && !seen[k] { // of a header that is repeated the first counts
			seen[k] = true
			d.Headers = append(d.Headers, rota.Header{Key: k, Value: []byte(v)})
		}
	}
	return d
}

// writeFrame makes a SEND of a message.
func writeFrame(l *outgoing) *frame.Frame {
	f := frame.New(frame.SEND, frame.Destination, destination(l.queue), frame.ContentLength, strconv.Itoa(len(l.Value)))
	f.Body = l.Value
	if l.replyTo != "" {
		f.Header.Add("reply-to", l.replyTo)
	}
	if l.expires {
		f.Header.Add("expires", strconv.FormatInt(time.Now().Add(questionTime).UnixMilli(), 10))
	} else {
		f.Header.Add("persistent", "true")
	}
	if l.Key != nil {
		f.Header.Add(keyHeader, string(l.Key))
	}
	for _, h := range l.Headers {
		if !ofProtocol[h.Key] && h.Key != "" && (l.replyTo == "" || h.Key != "reply-to") {
			f.Header.Add(h.Key, string(h.Value))
		}
	}
	return f
}

// questionTime is how long a question to the broker is kept if nobody answers it.
const questionTime = 10 * time.Second

// readMap reads a map as the broker writes it as JSON: a list of entries, in each of which
// the field names are types.
func readMap(body []byte) (map[string]any, error) {
	var doc struct {
		Map struct {
			Entry []map[string]json.RawMessage `json:"entry"`
		} `json:"map"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("the broker's statistics cannot be read: %w", err)
	}
	out := map[string]any{}
	for _, entry := range doc.Map.Entry {
		var key string
		var value any
		for kind, raw := range entry {
			var both []string
			switch {
			case kind == "string" && json.Unmarshal(raw, &both) == nil && len(both) == 2: // a string and a string
				key, value = both[0], both[1]
			case kind == "string":
				json.Unmarshal(raw, &key)
			default:
				json.Unmarshal(raw, &value)
			}
		}
		if key != "" && value != nil {
			out[key] = value
		}
	}
	return out, nil
}

// oneLine makes a text fit into a header.
func oneLine(s string) string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), 500)], "")
}
