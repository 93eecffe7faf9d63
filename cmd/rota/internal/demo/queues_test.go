package demo

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// published is a source that tells what is published to it.
type published struct {
	rota.Source
	values chan string
}

func (p published) Publish(_ context.Context, partition string, values ...[]byte) error {
	for _, v := range values {
		p.values <- partition + " " + string(v)
	}
	return nil
}

// Lines are published before the next one is waited for, and all of them before the end.
func TestALineIsPublishedBeforeTheNextOne(t *testing.T) {
	to := published{values: make(chan string, 10)}
	p := &Producer{queues: &queues{to, map[string][][]byte{}}, subjects: []string{"a", "b"}}
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- p.lines(in) }()
	next := func() string {
		select {
		case got := <-to.values:
			return got
		case <-time.After(30 * time.Second):
			t.Fatal("nothing is published")
			return ""
		}
	}
	for _, c := range []struct {
		text string
		want []string
	}{{"1\n", []string{"a 1"}}, {"2\n3\n4", []string{"a 3", "b 2"}}} {
		if _, err := io.WriteString(out, c.text); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if got := next(); got != want {
				t.Errorf("published is %q, want %q", got, want)
			}
		}
	}
	out.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := p.flush(); err != nil || next() != "b 4" {
		t.Errorf("the last line is not published: %v", err)
	}
}
