package agent

import (
	"time"
)

// What rota and its watchdog say to each other, one JSON object per packet. The
// watchdog runs in a session of its own, starts every command on rota's behalf
// and holds the instant by which it must be gone. A frozen rota cannot tell it
// anything: then that instant stands, and the commands end with it.

// A wish is what rota asks of its watchdog.
type wish struct {
	Do    string   `json:"do"` // start, lease, term, kill
	ID    int      `json:"id"`
	Until int64    `json:"until,omitempty"` // start, lease: on CLOCK_BOOTTIME, in ns
	Argv  []string `json:"argv,omitempty"`
	Env   []string `json:"env,omitempty"`
}

// A reply is what the watchdog tells.
type reply struct {
	Is   string `json:"is"` // ready, started, failed, escaped, gone
	ID   int    `json:"id,omitempty"`
	PID  int    `json:"pid,omitempty"`
	Text string `json:"text,omitempty"` // ready: how commands are held; failed: why; escaped: what it runs
	Big  bool   `json:"big,omitempty"`  // failed: its arguments and environment are too long
	Mark string `json:"mark,omitempty"` // ready: what commands carry
	Code int    `json:"code,omitempty"` // gone: its exit status; 128 + n for signal n
	Late bool   `json:"late,omitempty"` // gone: ended by the watchdog, for its time was over
	At   int64  `json:"at,omitempty"`   // gone: when nothing of it was left, on CLOCK_BOOTTIME
}

const (
	watchdogFD   = 3                     // where the watchdog finds its end of the socket
	watchdogTick = 10 * time.Millisecond // how often it looks at the clock at least, while commands run
	maxPacket    = 128 << 10
	commandMark  = "ROTA_COMMAND_" // begins a variable of everything a command starts
)
