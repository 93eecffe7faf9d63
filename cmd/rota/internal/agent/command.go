package agent

import (
	"os"
	"time"

	"github.com/rota-dev/rota"
)

// A command is what a keeper runs.
type command struct {
	about string // the partition
	argv  []string
	env   []string // besides what every command inherits
	stdin []byte
	in    *os.File // in place of stdin: the end of a pipe
	out   *os.File
	err   *os.File
	// stop, when it closes, has the command asked to end by SIGTERM, after a while; nil
	// if it is not to be asked.
	stop      <-chan struct{}
	stopAfter time.Duration
	given     func()                                 // called once the files are the command's, or never will be
	tell      func(code rota.Condition, text string) // of its partition

	// While it runs.
	id    int
	is    *running
	lease *leaseFile
}

// termGrace is how long a command has between SIGTERM and SIGKILL, if its lease lasts.
const termGrace = time.Second

const codeLeaseFile rota.Condition = "no-lease-file"

func (c *command) sent() {
	if c.given != nil {
		c.given()
	}
}

func (c *command) warn(code rota.Condition, text string) {
	if c.tell != nil {
		c.tell(code, text)
	}
}

// notBegun is the error of a command that could not be started: for want of memory,
// descriptors or processes, or because it is not there or may not be executed.
type notBegun struct{ error }
