package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func upCmd() *cobra.Command {
	members, partitions := 3, 6
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Watch a group at work on this machine",
		Long: `Up shows a group at work. Today its members run in this one process, on a store and
queues in memory; separate processes come with the embedded store.

The members are real ones, with a heartbeat every 2 s and a lease of 5 s, and have
messages to handle. What is killed or cut off here is so as far as one process can
do that to a part of itself. So that there is something to see, a member
joins after 5 s, the leader is killed after 10 s, and one member is cut off from
the store after 20 s and healed after 28 s. Then all stays calm until Ctrl-C, on
which every member leaves in good order.

On a terminal you can type commands meanwhile: help lists them.`,
		Example: `  rota up                                three members, six partitions
  rota up --for 40s                      all there is to see, then end
  rota up --members 5 --partitions 12    a larger group`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var typed <-chan string
			if in := cmd.InOrStdin(); columns(in) > 0 {
				typed = lines(cmd.Context(), in)
			}
			return newShow(cmd.OutOrStdout(), members, partitions).run(cmd.Context(), typed, length)
		},
	}
	cmd.Flags().SortFlags = false
	sizeFlags(cmd, &members, &partitions)
	cmd.Flags().Var((*timeSpan)(&length), "for", "end after this `time`, such as 30s; 0 is not before Ctrl-C (default 0)")
	return cmd
}

// A show is a stage played in real time before a person. Its time is the
// stage's: whoever stops the process stops the show, and misses nothing.
type show struct {
	out   io.Writer
	stage stage
	size  int
	parts int
	acts  []act
	cut   map[string]bool // cut off, as far as we did it
	event event           // said, not yet printed: more may belong to it
	err   error           // of out
}

// A stage is what a show is played on.
type stage interface {
	Join(name string)
	Kill(name string) bool
	Cut(name string) bool
	Heal(name string) bool
	Leave(name string) bool
	Owners() []string
	Say(func(at time.Duration, line string))
	Advance(time.Duration)
	Now() time.Duration
	Seen() ([]string, error)
	Close()
}

// An act is something that happens by itself. Whom it is about is settled when
// it is announced.
type act struct {
	at   time.Duration
	cast func() string
	do   func(name string) string // returns what was done
	says string                   // what the named one will do
	name string
}

// An event is a line of the stage. Deeds of one kind of one member at one moment
// are one.
type event struct {
	at   time.Duration
	line string
}

const (
	step   = 50 * time.Millisecond // of real time, and played in one go
	status = 5 * time.Second       // how often the show says who has what
)

func newShow(out io.Writer, members, partitions int) *show {
	s := &show{out: out, size: members, parts: partitions, cut: map[string]bool{}}
	s.stage = newCrew(partitions)
	s.stage.Say(s.hear)
	lost := ""
	s.acts = []act{
		{at: 5 * time.Second, says: "joins", do: s.join, cast: s.newcomer},
		{at: 10 * time.Second, says: "is killed, without a word", do: s.kill, cast: s.leader},
		{at: 20 * time.Second, says: "is cut off from the store", do: s.cutOff, cast: func() string { lost = s.follower(); return lost }},
		{at: 28 * time.Second, says: "is healed", do: s.heal, cast: func() string { return lost }},
		{at: 33 * time.Second, says: "is started again, if it ended", do: s.restart, cast: func() string { return lost }},
	}
	return s
}

// run plays until ctx ends, somebody types quit, or length has passed.
func (s *show) run(ctx context.Context, typed <-chan string, length time.Duration) error {
	defer s.stage.Close()
	s.open(typed != nil)
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.close()
		case line, more := <-typed:
			if !more || s.obey(strings.Fields(line)) {
				return s.close()
			}
		case <-tick.C:
			if err := s.play(step); err != nil {
				return err
			}
			if length > 0 && s.stage.Now() >= length {
				return s.close()
			}
		}
	}
}

func (s *show) open(typing bool) {
	s.printf("rota up: today this runs %s in this one process, on a store and queues in memory;", count(s.size, "member"))
	s.printf("separate processes come with the embedded store.")
	s.printf("")
	s.printf("They share %s. q0@1 is partition q0 under token 1: the token grows with every owner.", count(s.parts, "partition"))
	s.printf("To come: a member joins at 5 s, the leader is killed at 10 s, one is cut off at 20 s and healed at 28 s.")
	if typing {
		s.printf("Type help for what else you can do; Ctrl-C ends it.")
	} else {
		s.printf("Ctrl-C ends it.")
	}
	s.printf("")
	for i := range s.size {
		s.stage.Join(fmt.Sprintf("c%d", i+1))
	}
	s.tell("starting %s", listed(s.names()))
	s.announce()
}

// play lets d pass, and whatever is due happen.
func (s *show) play(d time.Duration) error {
	s.stage.Advance(d)
	s.flush()
	if _, err := s.stage.Seen(); err != nil {
		return err
	}
	now := s.stage.Now()
	if now%status == 0 {
		s.tell("now  %s", s.state())
	}
	for len(s.acts) > 0 && now >= s.acts[0].at {
		a := s.acts[0]
		s.acts = s.acts[1:]
		s.tell("%s", a.do(a.name))
		s.announce()
	}
	return s.err
}

// announce says what comes next, if there is somebody whom it can happen to.
func (s *show) announce() {
	for ; len(s.acts) > 0; s.acts = s.acts[1:] {
		a := &s.acts[0]
		if a.name = a.cast(); a.name != "" {
			s.tell("in %s %s %s", roughly(a.at-s.stage.Now()), a.name, a.says)
			return
		}
	}
	s.tell("nothing else is planned")
}

// close lets every member leave in good order.
func (s *show) close() error {
	s.flush()
	s.printf("")
	s.tell("everybody leaves")
	for _, name := range s.names() {
		s.stage.Leave(name)
	}
	// A member that is cut off waits for its lease to run out.
	for limit := s.stage.Now() + 15*time.Second; len(s.names()) > 0 && s.stage.Now() < limit; {
		s.stage.Advance(step)
		s.flush()
	}
	if _, err := s.stage.Seen(); err != nil {
		return err
	}
	if left := s.names(); len(left) > 0 {
		return fmt.Errorf("%s did not leave within 15 s", listed(left))
	}
	s.tell("all left")
	return s.err
}

// What can happen to a member. Each answers with what was done, or why not.

func (s *show) join(name string) string {
	if !memberName.MatchString(name) {
		return fmt.Sprintf("%q cannot be a name: use up to 32 letters, digits, - and _", name)
	}
	up := s.names()
	if slices.Contains(up, name) {
		return name + " is up already"
	}
	if len(up) > 64 {
		return fmt.Sprintf("%d members are up, and that is enough for one screen", len(up))
	}
	delete(s.cut, name)
	s.stage.Join(name)
	return name + " starts"
}

func (s *show) kill(name string) string {
	if !s.stage.Kill(name) {
		return s.nobody(name)
	}
	return "nobody is told of it, so the lease of " + name + " has to run out"
}

func (s *show) cutOff(name string) string {
	switch {
	case s.isCut(name):
		return name + " is cut off already"
	case !s.stage.Cut(name):
		return s.nobody(name)
	}
	s.cut[name] = true
	return name + " is cut off from the store: it has to stop before anybody else may start"
}

func (s *show) heal(name string) string {
	switch {
	case !slices.Contains(s.names(), name):
		return s.nobody(name)
	case !s.isCut(name):
		return name + " is not cut off"
	}
	s.stage.Heal(name)
	delete(s.cut, name)
	return name + " reaches the store again"
}

func (s *show) leave(name string) string {
	if !s.stage.Leave(name) {
		return s.nobody(name)
	}
	return name + " is asked to leave"
}

func (s *show) restart(name string) string {
	if slices.Contains(s.names(), name) {
		return name + " is up and need not be started again"
	}
	return s.join(name) + " again, as a supervisor would see to"
}

func (s *show) nobody(name string) string {
	return fmt.Sprintf("no member called %s is up; %s", name, s.up())
}

func (s *show) up() string {
	if names := s.names(); len(names) > 0 {
		return "up: " + strings.Join(names, " ")
	}
	return "nobody is up"
}

func (s *show) isCut(name string) bool {
	return s.cut[name] && slices.Contains(s.names(), name)
}

var memberName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

const commands = `join NAME   start a member         cut NAME    cut it off from the store
kill NAME   end it without a word  heal NAME   undo that
leave NAME  let it leave           who         who leads, who owns what
help        this                   quit        everybody leaves (also Ctrl-C)`

// obey does what somebody typed, and tells whether that was to quit.
func (s *show) obey(words []string) (quit bool) {
	if len(words) == 0 {
		return false
	}
	verb, args := words[0], words[1:]
	toOne := map[string]func(string) string{"join": s.join, "kill": s.kill, "cut": s.cutOff, "heal": s.heal, "leave": s.leave}
	do := toOne[verb]
	switch {
	case do != nil && len(args) != 1:
		s.tell("%s wants one name, such as: %s %s", verb, verb, s.example(verb))
	case do != nil:
		s.tell("%s", do(args[0]))
	case len(args) > 0 && slices.Contains([]string{"who", "help", "quit"}, verb):
		s.tell("%s stands alone, without %q", verb, strings.Join(args, " "))
	case verb == "who":
		for _, line := range s.owners() {
			s.tell("%s", line)
		}
		if len(s.names()) == 0 {
			s.tell("nobody is up")
		}
	case verb == "help":
		s.printf("%s", commands)
	case verb == "quit":
		return true
	default:
		s.tell("there is no command %q; there are join, kill, cut, heal and leave with a name, who, help and quit", verb)
	}
	return false
}

func (s *show) example(verb string) string {
	if names := s.names(); verb != "join" && len(names) > 0 {
		return names[0]
	}
	return s.newcomer()
}

// Who is who.

func (s *show) names() []string {
	var names []string
	for _, line := range s.stage.Owners() {
		name, _, _ := strings.Cut(line, " ")
		names = append(names, strings.TrimSuffix(name, ":"))
	}
	return names
}

func (s *show) newcomer() string {
	names := s.names()
	for i := s.size + 1; ; i++ {
		if name := fmt.Sprintf("c%d", i); !slices.Contains(names, name) {
			return name
		}
	}
}

// leader is who leads, or who is likely to.
func (s *show) leader() string {
	names := s.names()
	for i, line := range s.stage.Owners() {
		if strings.HasPrefix(line, names[i]+" leads") {
			return names[i]
		}
	}
	if len(names) > 0 {
		return names[0]
	}
	return ""
}

// follower is somebody else, if there is somebody else.
func (s *show) follower() string {
	leader := s.leader()
	for _, name := range s.names() {
		if name != leader {
			return name
		}
	}
	return leader
}

func (s *show) owners() []string {
	lines := s.stage.Owners()
	for i, name := range s.names() {
		if s.cut[name] {
			lines[i] += " (cut off)"
		}
	}
	return lines
}

// state is who has what, in one line.
func (s *show) state() string {
	lines := s.owners()
	if len(lines) == 0 {
		return "nobody is up"
	}
	line := strings.Join(lines, "   ")
	if len(line) <= wide {
		return line
	}
	owned := strings.Count(line, "@")
	return fmt.Sprintf("%s leads; %s run %s of %s", s.leader(), count(len(lines), "member"), group(owned), count(s.parts, "partition"))
}

func listed(names []string) string {
	if n := len(names); n > 4 {
		return names[0] + " to " + names[n-1]
	}
	return strings.Join(names, ", ")
}

// What is printed.

// wide is where a line becomes too long to read.
const wide = 120

func (s *show) hear(at time.Duration, line string) {
	if together(s.event, event{at, line}) {
		s.event.line += " " + strings.SplitN(line, " ", 3)[2]
		return
	}
	s.flush()
	s.event = event{at, line}
}

// together: both start, or stop, a partition of the same member.
func together(a, b event) bool {
	x, y := strings.SplitN(a.line, " ", 3), strings.SplitN(b.line, " ", 3)
	return a.at == b.at && len(x) == 3 && len(y) == 3 && x[0] == y[0] && x[1] == y[1] && (x[1] == "starts" || x[1] == "stops")
}

func (s *show) flush() {
	if s.event.line == "" {
		return
	}
	line := short(s.event.line)
	for _, a := range asides {
		if strings.HasSuffix(line, a.to) {
			line += " (" + a.says + ")"
			break
		}
	}
	s.printf("%s  %s", clock(s.event.at), line)
	s.event = event{}
}

// asides explain what a newcomer may not know.
var asides = []struct{ to, says string }{
	{" pauses: no lease", "the store has not heard of it for too long, so it may not act"},
	{" ends: fenced", "it was declared dead meanwhile, so it may not go on"},
	{" ends: orphaned", "it was cut off for too long"},
}

// tell is the show's own voice.
func (s *show) tell(format string, args ...any) {
	s.flush()
	s.printf("%s  -- %s", clock(s.stage.Now()), fmt.Sprintf(format, args...))
}

func (s *show) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format+"\n", args...); err != nil && s.err == nil {
		s.err = err
	}
}

func clock(at time.Duration) string { return fmt.Sprintf("%8.3fs", at.Seconds()) }

func short(line string) string {
	if len(line) <= wide {
		return line
	}
	cut := strings.LastIndex(line[:wide], " ")
	return fmt.Sprintf("%s … and %d more", line[:max(cut, 0)], len(strings.Fields(line[max(cut, 0):])))
}

// lines sends what is typed, line by line. A read from a terminal cannot be
// called off, so its goroutine ends with the process.
func lines(ctx context.Context, in io.Reader) <-chan string {
	typed := make(chan string)
	go func() {
		defer close(typed)
		for scan := bufio.NewScanner(in); scan.Scan(); {
			select {
			case typed <- scan.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return typed
}

// timeSpan is a duration that is not negative.
type timeSpan time.Duration

func (t *timeSpan) String() string {
	if *t == 0 {
		return "0" // help leaves it out
	}
	return time.Duration(*t).String()
}

func (t *timeSpan) Type() string { return "time" }

func (t *timeSpan) Set(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return fmt.Errorf("want a time such as 30s or 2m; 0 is not before Ctrl-C")
	}
	*t = timeSpan(d)
	return nil
}
