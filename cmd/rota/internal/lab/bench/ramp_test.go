package bench

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"
)

const rampHead = `{"scaler":"local","partitions":48,"capacity":40,"target":0.8,"least":1,"spare":1}` + "\n"

// A picture has every line, with its name, and is XML.
func TestARampIsDrawn(t *testing.T) {
	var b strings.Builder
	b.WriteString(rampHead)
	for at := range 100 {
		fmt.Fprintf(&b, `{"at":%d,"rate":%d,"sent":%d,"handled":%d,"needed":%d,"want":%d,"have":2}`+"\n", at, 10+at, 100*at, 90*at, 1+at/20, 2+at/20)
	}
	r, err := ReadRamp(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	svg := RampSVG(r)
	for _, want := range []string{">have<", ">wanted<", ">needed, with the spare<", ">load, in members<", ">backlog<", ">seconds<", "prefers-color-scheme: dark"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture has no %s", want)
		}
	}
	if n := strings.Count(svg, `<path class="c`); n != 5 {
		t.Errorf("%d lines, want 5", n)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error("the picture has places that are none")
	}
}

func TestAFileThatIsNoRamp(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "line 1: EOF",
		"{}\n":                                 "a ramp needs a capacity, a target and two moments",
		rampHead + `{"at":1}`:                  "two moments",
		rampHead + `{"at":1}` + "\n" + `{"x":`: "line 3: ",
		`{"speed":1}`:                          "unknown field",
	} {
		if _, err := ReadRamp(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
