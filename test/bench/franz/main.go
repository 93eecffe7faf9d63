//go:build linux

// Franz is a consumer group of franz-go on kfake that rota bench failover can
// measure: it is started as rota serve and rota run are, and writes the same
// event lines. It is tuned as well as is honest; docs/performance.md tells how.
//
//	rota bench failover --system 'franz-go classic' --member 'franz --protocol classic'
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// settings are those of rota run that mean something here.
type settings struct {
	protocol            string
	name, events, gate  string
	server, scratch     string
	handle              string
	lease, heartbeat    time.Duration
	partitions          int
	tether, trace, mute bool
	group               string
}

const topic = "bench"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "franz:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var s settings
	first := flag.NewFlagSet("franz", flag.ContinueOnError)
	first.StringVar(&s.protocol, "protocol", "classic", "classic or kip848")
	if err := first.Parse(args); err != nil {
		return err
	}
	if s.protocol != "classic" && s.protocol != "kip848" {
		return fmt.Errorf("--protocol %q: want classic or kip848", s.protocol)
	}
	if first.NArg() == 0 {
		return errors.New("want serve or run")
	}
	fl := flag.NewFlagSet(first.Arg(0), flag.ContinueOnError)
	fl.StringVar(&s.name, "name", "", "of the member")
	fl.StringVar(&s.group, "group", "bench", "whom it joins")
	fl.StringVar(&s.events, "events", "", "where to write event lines")
	fl.StringVar(&s.gate, "start-gate", "", "wait until this file exists, then join")
	fl.StringVar(&s.server, "server", "", "address of the broker")
	fl.StringVar(&s.scratch, "scratch", "", "a folder to remove when the tether is cut")
	fl.StringVar(&s.handle, "handle", "sleep:20ms", "how long a message takes")
	fl.DurationVar(&s.lease, "lease", 5*time.Second, "session timeout")
	fl.DurationVar(&s.heartbeat, "heartbeat", 2*time.Second, "heartbeat interval")
	fl.IntVar(&s.partitions, "partitions", 64, "of the topic")
	fl.BoolVar(&s.tether, "tether", false, "end when standard input does")
	fl.BoolVar(&s.trace, "trace", true, "always")
	fl.BoolVar(&s.mute, "quiet", true, "always")
	if err := fl.Parse(first.Args()[1:]); err != nil {
		return err
	}
	switch first.Arg(0) {
	case "serve":
		return s.serve()
	case "run":
		return s.member()
	}
	return fmt.Errorf("%q: want serve or run", first.Arg(0))
}
