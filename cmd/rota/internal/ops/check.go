package ops

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/check"
	"github.com/rota-dev/rota/internal/line"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/rota-dev/rota/internal/record"
	"github.com/spf13/cobra"
)

// A checked history is what check prints as JSON.
type checkedHistory struct {
	Well       bool     `json:"well"`
	Wrong      []string `json:"wrong"` // broken promises, for people
	Files      int      `json:"files"`
	Lines      int      `json:"lines"`
	Sessions   int      `json:"sessions"`
	Partitions int      `json:"partitions"`
	Ownerships int      `json:"ownerships"`
	Open       int      `json:"open"` // ownerships without an end on record
	Messages   int      `json:"messages"`
	Missed     int      `json:"missed"` // events that were never written
}

func (v *finding) shape(files int) checkedHistory {
	return checkedHistory{len(v.Wrong) == 0, append([]string{}, v.Wrong...), files, v.lines, v.sessions, v.partitions, v.Owned, v.open, v.messages, v.Missed}
}

func CheckCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Judge a history: the event files of a group's members",
		Long: `Check reads what members wrote with --events and says whether every promise was
kept: no two sessions ran one partition at a time with a valid lease, tokens grew
with every owner, one token belonged to one session, each grant was started once,
no handler was called and nothing settled without a lease, messages of one ownership
were handled in order, and no two leaders had one term. With --trace there is more
to judge. Give it the files of all members: it cannot see what nobody wrote.

Files are compared by their machine's clock (boot_ns), so they must come from one
machine that was not restarted meanwhile.

Exit codes: 0 all well, 1 a promise was broken, 64 a file cannot be read.`,
		Example: `  rota run --events c1.jsonl --trace …    on each member
  rota check *.jsonl`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			var lines []Line
			for _, file := range files {
				got, err := ReadLines(file)
				if err != nil {
					return err
				}
				lines = append(lines, got...)
			}
			if err := sameClock(lines); err != nil {
				return err
			}
			v := JudgeLines(lines)
			if err := printChecked(cmd.OutOrStdout(), output, v, len(files)); err != nil {
				return err
			}
			if len(v.Wrong) > 0 {
				return cli.Quietly(cli.ExitFailed)
			}
			return nil
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func printChecked(w io.Writer, output string, v *finding, files int) error {
	if output == "json" {
		return printJSON(w, v.shape(files))
	}
	_, err := fmt.Fprintln(w, strings.Join(append([]string{v.Summary(files)}, v.Wrong...), "\n"))
	return err
}

// A Line line knows where it stood.
type Line struct {
	line.Line
	file string
	at   int
}

func (s *Line) where() string { return fmt.Sprintf("%s:%d", plain.Text(s.file), s.at) }

func ReadLines(file string) ([]Line, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, cli.BadUsage(err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, line.MaxSize)
	var out []Line
	for n := 1; ; n++ {
		b, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, cli.Usagef("%s:%d: longer than %d bytes: not an event line", plain.Text(file), n, line.MaxSize)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, cli.BadUsage(err)
		}
		last := err != nil
		if len(bytes.TrimSpace(b)) > 0 {
			l, err := line.Parse(b)
			switch {
			case err == nil:
				out = append(out, Line{l, file, n})
			case last: // cut short: its member was killed while it wrote
			default:
				return nil, cli.Usagef("%s:%d: %v", plain.Text(file), n, err)
			}
		}
		if last {
			return out, nil
		}
	}
}

// sameClock refuses lines whose instants cannot be compared.
func sameClock(lines []Line) error {
	var first *Line
	for i := range lines {
		l := &lines[i]
		switch {
		case l.BootID == "":
		case first == nil:
			first = l
		case l.BootID != first.BootID:
			return cli.Usagef("%s and %s come from two machines, or from two starts of one: their clocks cannot be compared; judge them apart", first.where(), l.where())
		}
	}
	return nil
}

// A finding is what came of a history.
type finding struct {
	Wrong      []string
	lines      int
	sessions   int
	partitions int
	Owned      int // ownerships
	open       int // of which nobody told the end
	messages   int
	Missed     int
}

func (v *finding) Summary(files int) string {
	out := fmt.Sprintf("%s, %s, %s: %s of %s by %s",
		cli.Count(files, "file"), cli.Count(v.lines, "line"), Well(len(v.Wrong)), cli.Count(v.Owned, "ownership"), cli.Count(v.partitions, "partition"), cli.Count(v.sessions, "session"))
	if v.messages > 0 {
		out += ", " + cli.Count(v.messages, "message") + " handled"
	}
	if v.open > 0 {
		out += fmt.Sprintf("; %d without an end on record: killed, or still running", v.open)
	}
	if v.Missed > 0 {
		out += fmt.Sprintf("; %d events were never written, so this is not the whole history", v.Missed)
	}
	return out
}

func Well(wrong int) string {
	if wrong == 0 {
		return "all well"
	}
	return cli.Count(wrong, "broken promise")
}

// ownership is one token of one partition in one session's hands.
type ownership struct {
	partition, session string
	token              uint64
}

// JudgeLines gives the lines to the checkers that also judge simulated runs, and
// asks what only files can show.
func JudgeLines(lines []Line) *finding {
	slices.SortStableFunc(lines, func(a, b Line) int {
		if a.Boot != b.Boot {
			return int(min(max(a.Boot-b.Boot, -1), 1))
		}
		return 0
	})
	j := &judge{who: map[string]int32{}, part: map[string]int32{}, ends: map[ownership]*Line{}, lease: map[string]int64{}, unleased: map[string]bool{},
		leaders: map[uint64]*Line{}, order: map[ownership]uint64{}, handled: map[ownership]map[uint64]bool{}, owners: map[string]map[uint64]string{}, runs: map[ownership]int{}}
	for i := range lines {
		l := &lines[i]
		if l.Event == "stopped" {
			j.ends[ownership{l.Partition, l.Session, l.Token}] = l
		}
		j.number(l)
	}
	j.chk.Who, j.chk.Part = j.whoName, j.partName
	j.chk.Reset(len(j.names), len(j.parts))
	j.v.lines, j.v.sessions, j.v.partitions = len(lines), len(j.names), len(j.parts)
	for i := range lines {
		j.take(&lines[i])
	}
	for own := range j.runs {
		if j.ends[own] == nil {
			j.v.open++
		}
	}
	return &j.v
}

type judge struct {
	v       finding
	chk     check.Checker
	broken  bool
	who     map[string]int32
	part    map[string]int32
	names   []string // by who
	parts   []string
	ends    map[ownership]*Line // where it had stopped
	lease   map[string]int64    // by session, as far as known
	leaders map[uint64]*Line    // by term
	order   map[ownership]uint64
	handled map[ownership]map[uint64]bool
	owners  map[string]map[uint64]string // partition → token → session
	runs    map[ownership]int

	unleased map[string]bool // sessions that work on without a lease
}

func (j *judge) number(l *Line) {
	if _, ok := j.who[l.Session]; !ok && l.Session != "" {
		j.who[l.Session] = int32(len(j.names))
		j.names = append(j.names, plain.Text(l.Member)+" ("+plain.Text(l.Session)+")")
	}
	if _, ok := j.part[l.Partition]; !ok && l.OfOwnership() {
		j.part[l.Partition] = int32(len(j.parts))
		j.parts = append(j.parts, plain.Text(l.Partition))
	}
}

func (j *judge) whoName(n int32) string {
	if n < 0 {
		return "nobody"
	}
	return j.names[n]
}

func (j *judge) partName(n int32) string { return j.parts[n] }

func (j *judge) complain(l *Line, format string, args ...any) {
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = plain.Text(text)
		}
	}
	j.v.Wrong = append(j.v.Wrong, l.where()+": "+fmt.Sprintf(format, args...))
}

// see gives one event to the checkers; after the first violation they are blind.
func (j *judge) see(l *Line, e check.Event) {
	e.At, e.Token = l.Boot, record.Token(l.Token)
	if l.Session != "" {
		e.Who = j.who[l.Session]
	}
	if l.Partition != "" && l.OfOwnership() {
		e.Part = j.part[l.Partition]
	}
	if v := j.chk.See(e); v != nil && !j.broken {
		j.broken = true
		j.complain(l, "%v", v)
	}
}

// extend: the lease is known to last until then.
func (j *judge) extend(l *Line, until int64) {
	if until > j.lease[l.Session] {
		j.lease[l.Session] = until
		j.see(l, check.Event{Kind: check.Lease, Until: until})
	}
}

func (j *judge) take(l *Line) {
	if l.Lease > 0 && l.Event != "stopped" && l.Session != "" {
		j.extend(l, l.Lease)
	}
	own := ownership{l.Partition, l.Session, l.Token}
	switch l.Event {
	case "missed":
		j.v.Missed += l.N
	case "leader":
		if was := j.leaders[l.Term]; was != nil && was.Session != l.Session {
			j.complain(l, "%s leads in term %d, as %s does (%s)", l.Member, l.Term, was.Member, was.where())
		}
		j.leaders[l.Term] = l
	case "grant":
		j.grant(l, own)
	case "stopped":
		j.see(l, check.Event{Kind: check.Stop})
	case "works_on":
		j.unleased[l.Session] = true
	case "resumed":
		delete(j.unleased, l.Session)
		j.see(l, check.Event{Kind: check.Resume})
	case "gone":
		if l.Session != "" {
			j.see(l, check.Event{Kind: check.Gone})
		}
	case "handle":
		j.v.messages++
		j.handle(l, own)
	case "settled":
		j.act(l)
	case "accept":
		j.see(l, check.Event{Kind: check.Accept})
	}
}

// grant: the ownership begins. Its lease held at least until it had stopped, or
// until the lease end that was known then: whichever came first.
func (j *judge) grant(l *Line, own ownership) {
	if j.runs[own]++; j.runs[own] == 1 {
		j.v.Owned++
	}
	if j.owners[l.Partition] == nil {
		j.owners[l.Partition] = map[uint64]string{}
	}
	if by := j.owners[l.Partition][l.Token]; by != "" && by != l.Session {
		j.complain(l, "%s@%d is granted to %s, and was granted to session %s", l.Partition, l.Token, l.Member, by)
	}
	again := j.owners[l.Partition][l.Token] == l.Session
	j.owners[l.Partition][l.Token] = l.Session
	if end := j.ends[own]; end != nil && end.Lease > 0 {
		j.extend(l, min(end.Boot, end.Lease))
	}
	if !again {
		j.see(l, check.Event{Kind: check.Row, State: record.Owned})
	}
	j.see(l, check.Event{Kind: check.Start})
}

// act: an effect begins. Of a member that works on without a lease, as its operator
// wanted, only the sink's word counts.
func (j *judge) act(l *Line) {
	if !j.unleased[l.Session] {
		j.see(l, check.Event{Kind: check.Act})
	}
}

// handle: an effect begins. Messages that are numbered come in order.
func (j *judge) handle(l *Line, own ownership) {
	j.act(l)
	if j.runs[own] == 0 {
		j.complain(l, "%s handles message %s of %s@%d, which was never granted to it", l.Member, l.Message, l.Partition, l.Token)
	}
	digits := len(l.Message) - len(strings.TrimRight(l.Message, "0123456789"))
	n, err := strconv.ParseUint(l.Message[len(l.Message)-digits:], 10, 64) // ORDERS-12 is the twelfth
	if err != nil {
		return
	}
	// What was handled and not settled comes again when the source had to begin
	// anew. What comes late for the first time was overtaken.
	if j.handled[own] == nil {
		j.handled[own] = map[uint64]bool{}
	}
	again := j.handled[own][n]
	j.handled[own][n] = true
	if last := j.order[own]; n < last && !again {
		j.complain(l, "%s handles message %s of %s@%d after one numbered %d", l.Member, l.Message, l.Partition, l.Token, last)
	}
	j.order[own] = max(j.order[own], n)
}
