package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// steps reads a whole trace.
func steps(text string) (out [][]float64, err error) {
	t := NewTrace("trace.csv", strings.NewReader(text))
	for {
		speeds, err := t.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, slices.Clone(speeds))
	}
}

func TestTraceReads(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"one step", "t,partition,speed\n0,a,1\n0,b,2\n", "[[1 2]]"},
		{"several", "t,partition,speed\n0,a,1\n1,a,2\n5,a,3\n", "[[1] [2] [3]]"},
		{"what is not named keeps its speed", "t,partition,speed\n0,a,1\n0,b,2\n1,b,3\n2,a,4\n", "[[1 2] [1 3] [4 3]]"},
		{"one comes later", "t,partition,speed\n0,a,1\n1,b,2\n", "[[1] [1 2]]"},
		{"columns in another order", "speed,t,partition\n7,0,a\n", "[[7]]"},
		{"no line end at the end", "t,partition,speed\n0,a,1", "[[1]]"},
		{"line ends of Windows, a byte order mark, blank lines", "\ufefft,partition,speed\r\n\r\n0,a,1\r\n\r\n", "[[1]]"},
		{"blanks around numbers", "t, partition, speed\n 0,a, 1 \n", "[[1]]"},
		{"a name in quotes", "t,partition,speed\n0,\"a,\"\"b\"\"\",1\n0,\"a\",2\n", "[[1 2]]"},
		{"times", "t,partition,speed\n2026-05-01T12:00:00Z,a,1\n2026-05-01T14:00:01.5+02:00,a,2\n", "[[1] [2]]"},
		{"fractions and exponents", "t,partition,speed\n-1.5,a,1e3\n-1,a,0.25\n", "[[1000] [0.25]]"},
	} {
		got, err := steps(c.text)
		if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, %v, want %s", c.name, got, err, c.want)
		}
	}
}

func TestTraceNamesTheLineOfEveryMistake(t *testing.T) {
	const head = "t,partition,speed\n"
	for _, c := range []struct{ text, says string }{
		{"", "trace.csv: it is empty: want the header t,partition,speed and lines below it"},
		{"\n\n", "trace.csv: it is empty"},
		{head, "trace.csv:1: there is a header and nothing below it"},
		{"0,a,1\n", `trace.csv:1: want the header t,partition,speed, got "0,a,1"`},
		{"time,partition,speed\n0,a,1\n", `trace.csv:1: want the header t,partition,speed, got "time,partition,speed"`},
		{"t,partition,speed,unit\n", `trace.csv:1: want the header t,partition,speed, got "t,partition,speed,unit"`},
		{"t,t,partition\n", `trace.csv:1: want the header t,partition,speed, got "t,t,partition"`},
		{head + "0,a\n", "trace.csv:2: want 3 values, t,partition,speed, got 2"},
		{head + "0,a,1,2\n", "trace.csv:2: want 3 values, t,partition,speed, got 4"},
		{head + "0,a,1\nnoon,a,1\n", `trace.csv:3: t is "noon": want a number or a time such as 2026-05-01T12:00:00Z`},
		{head + "NaN,a,1\n", `trace.csv:2: t is "NaN"`},
		{head + "+Inf,a,1\n", `trace.csv:2: t is "+Inf"`},
		{head + "0,,1\n", "trace.csv:2: the partition has no name"},
		{head + "0,a,fast\n", `trace.csv:2: the speed of "a" is "fast": want a number`},
		{head + "0,a,\n", `trace.csv:2: the speed of "a" is "": want a number`},
		{head + "0,a,NaN\n", `trace.csv:2: the speed of "a" is "NaN": want a number`},
		{head + "0,a,-1\n", `trace.csv:2: the speed of "a" is -1: it cannot be negative; take it from offsets or counters, which only grow`},
		{head + "0,a,Inf\n", `trace.csv:2: the speed of "a" is Inf: want at most 1e+15`},
		{head + "0,a,-Inf\n", `trace.csv:2: the speed of "a" is -Inf: it cannot be negative`},
		{head + "0,a,1e999\n", `trace.csv:2: the speed of "a" is 1e999: want at most 1e+15`},
		{head + "\n5,a,1\n5,b,1\n4,a,1\n", "trace.csv:5: t goes back from 5 to 4: sort the lines by t"},
		{head + "0,a,1\n0,b,1\n0,a,2\n", `trace.csv:4: partition "a" is there twice at t 0: line 2 has it already`},
		{head + "0,a,1\n1,a,1\n1,b,1\n1,a,1\n", `trace.csv:5: partition "a" is there twice at t 1: line 3 has it already`},
		{head + "0,\"a,1\n0,b,1\n", `trace.csv:2: a quote is not closed, or something follows it: "0,\"a,1"`},
		{head + "0,\"a\"b,1\n", `trace.csv:2: a quote is not closed, or something follows it`},
		{head + "0," + strings.Repeat("a", traceLine) + ",1\n", "trace.csv:2: longer than 65536 bytes"},
	} {
		_, err := steps(c.text)
		if err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%.60q: %v, want %s", c.text, err, c.says)
		}
	}
}

func TestTraceLimitsPartitions(t *testing.T) {
	var b strings.Builder
	b.WriteString("t,partition,speed\n")
	for i := range tracePartitions + 1 {
		fmt.Fprintf(&b, "0,p%d,1\n", i)
	}
	if _, err := steps(b.String()); err == nil || err.Error() != `trace.csv:100002: more than 100000 partitions: "p100000" is one too many` {
		t.Errorf("%v", err)
	}
}

// Whatever a trace holds, it is read as steps of sound speeds or refused in one
// line that says where.
func FuzzTrace(f *testing.F) {
	for _, s := range []string{"t,partition,speed\n0,a,1\n", "speed,t,partition\n1,0,\"a\"\"\"\n2,1,b", "t,partition,speed\n0,a,1e400\n", "t,partition,speed\n0,a,-0\n1e309,a,1", "\ufeff\r\n", "\"t\",partition,speed\n2026-05-01T12:00:00Z,a,1\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := steps(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "trace.csv:") || strings.Contains(err.Error(), "\n") {
				t.Errorf("refused with %q", err)
			}
			return
		}
		lines := strings.Count(text, "\n") + 1
		if len(got) == 0 || len(got) >= lines {
			t.Errorf("%d steps in %d lines", len(got), lines)
		}
		for i, speeds := range got {
			if i > 0 && len(speeds) < len(got[i-1]) {
				t.Errorf("step %d lost partitions", i)
			}
			for _, v := range speeds {
				if !(v >= 0 && v <= traceSpeed) {
					t.Errorf("speed %v", v)
				}
			}
		}
	})
}
