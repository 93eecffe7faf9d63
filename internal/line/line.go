// Package line is the event line: what one event of a member looks like as a line
// of JSON. docs/events.md tells what it means.
package line

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/clock"
)

// Version is the version of the event lines. A reader refuses versions it does
// not know.
const Version = 2

// MaxSize is the longest event line there may be, in bytes: names are short.
const MaxSize = 1 << 20

// A Line is one event of a member.
type Line struct {
	V         int          `json:"v"`
	T         time.Time    `json:"t"`
	Boot      int64        `json:"boot_ns"`
	Event     string       `json:"event"`
	Group     string       `json:"group"`
	Member    string       `json:"member"`
	Session   string       `json:"session,omitempty"`
	Partition string       `json:"partition,omitempty"`
	Topic     string       `json:"topic,omitempty"` // of a grant, and of metadata that changed
	Meta      rota.Meta    `json:"meta,omitempty"`
	Token     uint64       `json:"token,omitempty,string"` // jq and JavaScript round numbers above 2^53, and two grants would look the same
	Plan      uint64       `json:"plan,omitempty"`
	Gen       uint64       `json:"gen,omitempty"`
	Term      uint64       `json:"term,omitempty"`
	Condition string       `json:"condition,omitempty"` // of a condition: its code
	Causes    []rota.Cause `json:"causes,omitempty"`    // of a plan: why it was made
	Because   string       `json:"because,omitempty"`
	Lease     int64        `json:"lease_ns,omitempty"` // until when the lease lasts, on the clock of boot_ns
	About     string       `json:"about,omitempty"`
	AboutName string       `json:"about_name,omitempty"`
	Message   string       `json:"message,omitempty"`
	Attempt   int          `json:"attempt,omitempty"`
	Moved     int          `json:"moved,omitempty"`
	Placed    int          `json:"placed,omitempty"`
	Want      int          `json:"want,omitempty"`  // of a size: how many members are wanted
	Have      int          `json:"have,omitempty"`  // and how many there are
	Going     []string     `json:"going,omitempty"` // and which are to go
	N         int          `json:"n,omitempty"`
	PID       int          `json:"pid,omitempty"`
	BootID    string       `json:"boot_id,omitempty"`
}

// Events that no member writes: the process that starts and ends members does, or
// a sink that checks tokens.
const (
	Term   = "sigterm" // the member is asked to leave
	Kill   = "sigkill" // its process is killed
	Gone   = "gone"    // its process has ended, seen by its parent
	Work   = "work"    // how many messages were handled, for rota up
	Accept = "accept"  // the sink took an effect
	Refuse = "refuse"  // the sink refused one, by its token
)

// New is a line about now.
func New(event, group, member string) Line {
	return Line{V: Version, T: time.Now(), Boot: int64(clock.Boot()), Event: event, Group: group, Member: member}
}

// Of is the line of a member's event, which happened at boot on the machine's
// clock.
func Of(e rota.Event, group string, boot time.Duration) Line {
	l := Line{V: Version, T: e.Time, Boot: int64(boot), Event: string(e.Kind), Group: group, Member: e.Member, Session: e.Session,
		Partition: e.Partition, Topic: e.Topic, Meta: e.Meta, Token: uint64(e.Token), Plan: e.Plan, Gen: e.Gen, Term: e.Term, Condition: string(e.Condition), Causes: e.Causes, Because: e.Because,
		About: e.About, AboutName: e.AboutName, Message: e.Message, Attempt: e.Attempt, Moved: e.Moved, Placed: e.Placed, Want: e.Want, Have: e.Have, Going: e.Going, N: e.N}
	if e.Remaining != 0 {
		l.Lease = int64(boot + e.Remaining)
	}
	if e.Kind == rota.EventJoined {
		l.PID, l.BootID = os.Getpid(), clock.BootID()
	}
	return l
}

// ofOwnership are the events of one ownership.
var ofOwnership = map[string]bool{
	string(rota.EventGrant): true, string(rota.EventStarting): true, string(rota.EventStart): true, string(rota.EventRevoke): true,
	string(rota.EventStop): true, string(rota.EventStopped): true, string(rota.EventHandle): true, string(rota.EventHandled): true,
	string(rota.EventSettled): true, string(rota.EventRefused): true, Accept: true, Refuse: true,
}

// OfOwnership tells whether the line is about one ownership of one partition.
func (l *Line) OfOwnership() bool { return ofOwnership[l.Event] }

// Parse decodes one line and refuses one that nobody could judge by.
func Parse(b []byte) (l Line, err error) {
	if err := json.Unmarshal(b, &l); err != nil {
		return l, misread(b, err)
	}
	switch {
	case l.V != Version:
		return l, otherVersion(l.V)
	case l.Event == "":
		return l, errors.New("an event line without an event")
	case l.Boot < 0 || l.Lease < 0:
		return l, errors.New("a time before the machine started")
	case l.OfOwnership() && (l.Partition == "" || l.Token == 0 || l.Session == ""):
		return l, fmt.Errorf("%s without its partition, token or session", l.Event)
	}
	return l, nil
}

// misread says why a line cannot be decoded: most often it is of a version that
// wrote its fields in another way.
func misread(b []byte, err error) error {
	var head struct {
		V     int             `json:"v"`
		Token json.RawMessage `json:"token"`
	}
	switch {
	case json.Unmarshal(b, &head) != nil:
	case head.V != Version:
		return otherVersion(head.V)
	case len(head.Token) > 0 && (head.Token[0] != '"' || bytes.Equal(head.Token, []byte(`""`))):
		return fmt.Errorf(`the token %s is not a string: since version 2 tokens are, as in "token":"7"`, head.Token)
	}
	return fmt.Errorf("not an event line: %w", err)
}

func otherVersion(v int) error {
	switch {
	case v == 0:
		return errors.New("not an event line: it has no version")
	case v < Version:
		return fmt.Errorf("an event line of version %d, which an older rota wrote; this one knows version %d: judge the file with the rota that wrote it, or move it away and let members begin a new one", v, Version)
	}
	return fmt.Errorf("an event line of version %d, which a newer rota wrote; this one knows version %d: use the newer one", v, Version)
}
