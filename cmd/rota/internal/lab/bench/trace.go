package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Trace reads how fast partitions were from a CSV file in long form, one line
// for each partition and instant:
//
//	t,partition,speed
//	0,orders.0,120
//	0,orders.1,80
//	60,orders.0,150
//
// The header is required, its columns may come in any order. t is a number or
// an RFC 3339 time and never goes back; lines of the same t are one step. A
// partition that a step does not name keeps its speed. Only the present speeds
// are kept in memory.
type Trace struct {
	name    string
	r       *bufio.Reader
	line    int
	columns [3]int // where t, partition and speed are
	ids     map[string]int32
	speeds  []float64 // by id
	given   []int     // by id: the line that gave it last
	began   int       // the line at which the present step begins
	at      float64   // t of the present step
	said    string    // the same, as it was written
	ahead   entry     // the first of the next step
	ended   bool
}

// entry is one line of a trace.
type entry struct {
	t     float64
	said  string
	name  string
	speed float64
	line  int
}

const (
	traceLine       = 64 << 10 // bytes
	tracePartitions = 100_000
	traceSpeed      = 1e15
)

var traceColumns = []string{"t", "partition", "speed"}

// NewTrace reads a trace; name is for its errors, which say in which line.
func NewTrace(name string, r io.Reader) *Trace {
	return &Trace{name: name, r: bufio.NewReaderSize(r, traceLine), ids: map[string]int32{}}
}

// Next returns the speeds of the next step: partitions in the order in which
// they first came, later steps may have more. It returns io.EOF after the last
// step. The slice is good until the next call.
func (t *Trace) Next() ([]float64, error) {
	if t.line == 0 {
		if err := t.header(); err != nil {
			return nil, err
		}
		first, err := t.entry()
		if err == io.EOF {
			return nil, t.errorf("there is a header and nothing below it")
		}
		if err != nil {
			return nil, err
		}
		t.ahead = first
	}
	if t.ended {
		return nil, io.EOF
	}
	t.began, t.at, t.said = t.ahead.line, t.ahead.t, t.ahead.said
	for e := t.ahead; ; {
		if err := t.take(e); err != nil {
			return nil, err
		}
		next, err := t.entry()
		if err == io.EOF {
			t.ended = true
			return t.speeds, nil
		}
		if err != nil {
			return nil, err
		}
		if next.t < t.at {
			return nil, t.errorf("t goes back from %s to %s: sort the lines by t", t.said, next.said)
		}
		if next.t > t.at {
			t.ahead = next
			return t.speeds, nil
		}
		e = next
	}
}

// take notes what a line says.
func (t *Trace) take(e entry) error {
	id, known := t.ids[e.name]
	if !known {
		if len(t.ids) == tracePartitions {
			return t.errorf("more than %d partitions: %q is one too many", tracePartitions, e.name)
		}
		id = int32(len(t.ids))
		t.ids[strings.Clone(e.name)] = id
		t.speeds = append(t.speeds, 0)
		t.given = append(t.given, 0)
	}
	if t.given[id] >= t.began {
		return t.errorf("partition %q is there twice at t %s: line %d has it already", e.name, e.said, t.given[id])
	}
	t.speeds[id], t.given[id] = e.speed, e.line
	return nil
}

// header finds out which column is which.
func (t *Trace) header() error {
	fields, err := t.fields()
	if err == io.EOF {
		return fmt.Errorf("%s: it is empty: want the header t,partition,speed and lines below it", t.name)
	}
	if err != nil {
		return err
	}
	if len(fields) > 0 {
		fields[0] = strings.TrimPrefix(fields[0], "\ufeff")
	}
	for i, want := range traceColumns {
		t.columns[i] = slices.IndexFunc(fields, func(f string) bool { return strings.TrimSpace(f) == want })
		if t.columns[i] < 0 || len(fields) != len(traceColumns) {
			return t.errorf("want the header t,partition,speed, got %q", brief(strings.Join(fields, ",")))
		}
	}
	return nil
}

// entry reads one line.
func (t *Trace) entry() (entry, error) {
	fields, err := t.fields()
	if err != nil {
		return entry{}, err
	}
	if len(fields) != len(traceColumns) {
		return entry{}, t.errorf("want %d values, t,partition,speed, got %d", len(traceColumns), len(fields))
	}
	e := entry{said: brief(strings.TrimSpace(fields[t.columns[0]])), name: fields[t.columns[1]], line: t.line}
	if e.t, err = parseTime(strings.TrimSpace(fields[t.columns[0]])); err != nil {
		return entry{}, t.errorf("t is %q: want a number or a time such as 2026-05-01T12:00:00Z", e.said)
	}
	if e.name == "" {
		return entry{}, t.errorf("the partition has no name")
	}
	speed := strings.TrimSpace(fields[t.columns[2]])
	e.speed, err = strconv.ParseFloat(speed, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), math.IsNaN(e.speed):
		return entry{}, t.errorf("the speed of %q is %q: want a number", brief(e.name), brief(speed))
	case e.speed < 0:
		return entry{}, t.errorf("the speed of %q is %s: it cannot be negative; take it from offsets or counters, which only grow", brief(e.name), brief(speed))
	case e.speed > traceSpeed:
		return entry{}, t.errorf("the speed of %q is %s: want at most %g", brief(e.name), brief(speed), traceSpeed)
	}
	return e, nil
}

func parseTime(s string) (float64, error) {
	if v, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v, nil
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	return float64(at.Unix()) + float64(at.Nanosecond())/1e9, err
}

// fields reads the next line that is not blank.
func (t *Trace) fields() ([]string, error) {
	for {
		line, err := t.r.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil, io.EOF
		}
		t.line++
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, t.errorf("longer than %d bytes", traceLine)
		}
		if err != nil && err != io.EOF {
			return nil, t.errorf("%w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		fields, ok := split(string(line))
		if !ok {
			return nil, t.errorf("a quote is not closed, or something follows it: %q", brief(string(line)))
		}
		return fields, nil
	}
}

// split cuts a line at its commas. A value in quotes may hold commas, and two
// quotes for one; it ends in its line, so that a lost quote cannot swallow the
// file.
func split(line string) (fields []string, ok bool) {
	if !strings.Contains(line, `"`) {
		return strings.Split(line, ","), true
	}
	for {
		if !strings.HasPrefix(line, `"`) {
			field, rest, more := strings.Cut(line, ",")
			fields = append(fields, field)
			if !more {
				return fields, true
			}
			line = rest
			continue
		}
		var field strings.Builder
		for line = line[1:]; ; {
			text, rest, closed := strings.Cut(line, `"`)
			if !closed {
				return nil, false
			}
			field.WriteString(text)
			line = rest
			if !strings.HasPrefix(line, `"`) {
				break
			}
			field.WriteByte('"')
			line = line[1:]
		}
		fields = append(fields, field.String())
		if line == "" {
			return fields, true
		}
		if line[0] != ',' {
			return nil, false
		}
		line = line[1:]
	}
}

func (t *Trace) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: "+format, append([]any{t.name, t.line}, args...)...)
}

// brief cuts what would not fit into a message.
func brief(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
