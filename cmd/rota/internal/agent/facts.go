package agent

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rota-dev/rota"
)

// An about is something that a command finds in its environment, and a server in the
// headers of a request.
type about struct{ key, value string }

// facts are about an ownership.
func (h *handler) facts(own ownership) []about {
	out := []about{
		{"GROUP", h.group}, {"MEMBER", h.member}, {"PARTITION", own.Partition()},
		{"TOKEN", strconv.FormatUint(uint64(own.Token()), 10)}, {"SESSION", own.Session()},
	}
	if topic := own.Topic(); topic != "" {
		out = append(out, about{"TOPIC", topic})
	}
	meta, _ := own.Meta()
	return append(out, about{"META", metaText(meta)})
}

// An ownership is what handlers need of a rota.Ownership.
type ownership interface {
	leaseholder
	Partition() string
	Topic() string
	Token() rota.Token
	Session() string
	Meta() (rota.Meta, <-chan struct{})
	Stop() <-chan struct{}
	Tell(code rota.Condition, text string)
}

// The most that a key and headers may take in an environment or in the headers of a
// request. Kernels and servers refuse those that are too long, and the message would
// never be handled.
const (
	mostKey     = 1 << 10
	mostHeaders = 4 << 10
)

// factsOf are about a message. A key or headers that would take too much room are left
// out, and that is said.
func (h *handler) factsOf(msg rota.Message) []about {
	out := append(h.facts(msg.Ownership()), about{"MESSAGE_ID", msg.ID}, about{"ATTEMPT", strconv.Itoa(msg.Attempt)},
		about{"MESSAGE_POSITION", strconv.FormatUint(msg.Position, 10)})
	if !msg.Time.IsZero() {
		out = append(out, about{"MESSAGE_TIME", stamp(msg.Time)})
	}
	var missing []string
	switch {
	case msg.Key == nil:
	case len(msg.Key) > mostKey:
		missing = append(missing, "key")
	case isPlain(msg.Key):
		out = append(out, about{"MESSAGE_KEY", string(msg.Key)})
	default:
		out = append(out, about{"MESSAGE_KEY_BASE64", base64.StdEncoding.EncodeToString(msg.Key)})
	}
	if text := asciiJSON(headerPairs(msg.Headers)); len(text) > mostHeaders {
		missing = append(missing, "headers")
	} else {
		out = append(out, about{"MESSAGE_HEADERS", text})
	}
	if missing != nil {
		out = append(out, about{"MESSAGE_LEFT_OUT", strings.Join(missing, " ")})
	}
	return out
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// isPlain tells whether a header of a request can carry the bytes as they are.
func isPlain(b []byte) bool {
	for i, c := range b {
		if c < ' ' || c > '~' || c == ' ' && (i == 0 || i == len(b)-1) {
			return false
		}
	}
	return true
}

// headerPairs are headers as a list of names and values, since a name may be there twice.
func headerPairs(headers []rota.Header) [][2]any {
	out := make([][2]any, len(headers))
	for i, h := range headers {
		out[i] = [2]any{strings.ToValidUTF8(h.Key, "\ufffd"), jsonBytes(h.Value)}
	}
	return out
}

// jsonBytes is a string of JSON if the bytes are text, otherwise {"base64": "…"}.
func jsonBytes(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return map[string]string{"base64": base64.StdEncoding.EncodeToString(b)}
}

func environment(all []about) []string {
	out := make([]string, len(all))
	for i, a := range all {
		out[i] = "ROTA_" + a.key + "=" + strings.ReplaceAll(a.value, "\x00", "")
	}
	return out
}
