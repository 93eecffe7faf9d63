package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/plain"
)

// What rota and a worker say to each other, as docs/workers.md has it: a frame is one
// line of JSON and the bytes of the message; an answer is one line of JSON.

// A frame is what a worker learns about a message. Numbers of 64 bits are strings, since
// many readers round those above 2^53.
type frame struct {
	Seq       uint64    `json:"seq"`
	Bytes     int       `json:"bytes"`
	Group     string    `json:"group"`
	Member    string    `json:"member"`
	Partition string    `json:"partition"`
	Topic     string    `json:"topic,omitempty"`
	Token     string    `json:"token"`
	Session   string    `json:"session"`
	ID        string    `json:"id"`
	Attempt   int       `json:"attempt"`
	Position  string    `json:"position"`
	Time      string    `json:"time,omitempty"`
	Key       any       `json:"key,omitempty"`
	Headers   [][2]any  `json:"headers"`
	Meta      rota.Meta `json:"meta"`
}

func (h *handler) frameOf(msg rota.Message, own ownership) frame {
	f := frame{Bytes: len(msg.Value), Group: h.group, Member: h.member, Partition: own.Partition(), Topic: own.Topic(),
		Token: strconv.FormatUint(uint64(own.Token()), 10), Session: own.Session(), ID: msg.ID, Attempt: msg.Attempt,
		Position: strconv.FormatUint(msg.Position, 10), Headers: headerPairs(msg.Headers)}
	if !msg.Time.IsZero() {
		f.Time = stamp(msg.Time)
	}
	if msg.Key != nil {
		f.Key = jsonBytes(msg.Key)
	}
	if f.Meta, _ = own.Meta(); f.Meta == nil {
		f.Meta = rota.Meta{}
	}
	return f
}

// encode is the frame with the value behind it.
func (f frame) encode(value []byte) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(f) // ends with a newline, and has no other
	b.Write(value)
	return b.Bytes(), err
}

// An answer is what a worker says about one message.
type answer struct {
	Seq    uint64 `json:"seq"`
	Is     string `json:"is"`
	Reason string `json:"reason"`
}

// errAttempt stands for a message that failed.
var errAttempt = errors.New("the attempt failed")

// answerWords are what an answer may say, as docs/cli.md has it for exit statuses.
var answerWords = map[string]error{"done": nil, "failed": errAttempt, "bad": rota.ErrBad, "later": rota.ErrUntried, "refused": rota.ErrLost}

const (
	maxAnswer = 64 << 10 // bytes of one line
	maxReason = 1000     // bytes that are shown
)

func parseAnswer(line []byte) (a answer, err error) {
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("no answer: %s", shorten(line))
	}
	if _, known := answerWords[a.Is]; !known || a.Seq == 0 {
		return a, fmt.Errorf("an answer without a seq, or without is: done, failed, bad, later or refused: %s", shorten(line))
	}
	return a, nil
}

// err is what the answer means for the message.
func (a answer) err() error {
	word := answerWords[a.Is]
	switch {
	case word == nil:
		return nil
	case a.Reason == "":
		return fmt.Errorf("%w: the worker says %q and no reason", word, a.Is)
	case word == errAttempt:
		return fmt.Errorf("the worker says: %s", cut(plain.Text(a.Reason), maxReason))
	}
	return fmt.Errorf("%w: the worker says: %s", word, cut(plain.Text(a.Reason), maxReason))
}

// shorten is a line that others wrote, for a sentence.
func shorten(line []byte) string {
	return strconv.QuoteToASCII(cut(string(bytes.TrimRight(line, "\r\n")), 100))
}

// cut keeps the beginning of a text.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
