package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Result is a verdict that is kept.
type Result struct {
	ID      string `json:"id"`
	Core    string `json:"core"`    // hash of the core it is of
	Harness string `json:"harness"` // and of what played it, the core's tests included
	Verdict
}

// manyRandom is how many random schedules a whole run plays.
const manyRandom = 20_000

// A run is what one call of this program does.
type run struct {
	root, dir     string
	set           *Set
	core, harness string
	amount        Baseline // how much to play
	procs         int
	despite       bool              // of schedules that fail without a mutant
	few           bool              // play only what takes little time
	equivalent    map[string]string // by mutant: why
	bin           string
	baseline      string
	stderr        io.Writer

	mu      sync.Mutex
	results map[string]Result
	file    *os.File
	done    int
	todo    int
	began   time.Time
}

// prepare makes the programs and the baseline, as far as they are not there yet.
func (r *run) prepare(ctx context.Context) error {
	var err error
	if r.core, err = hash(r.root, "internal/core"); err != nil {
		return err
	}
	if r.harness, err = hash(r.root, "internal/sim", "internal/scenario", "internal/check", "internal/record", "internal/plan",
		"test/mutate/sites.go", "test/mutate/pure.go", "test/mutate/rewrite.go", "test/mutate/baseline.go", "test/mutate/play.go"); err != nil {
		return err
	}
	if a := &r.amount; a.Most != 0 || a.Random != manyRandom { // who survives few schedules may not survive all
		r.harness += fmt.Sprintf(" %d %d", a.Most, a.Random)
	}
	if r.bin, err = compile(r.root, r.dir, r.set, false); err != nil {
		return err
	}
	a := &r.amount
	a.Key = fmt.Sprintf("%s %s %d %d %d", r.core, r.harness, a.Most, a.Random, a.Seed)
	tests, err := filepath.Glob(filepath.Join(r.root, "internal", "core", "*_test.go"))
	if err != nil {
		return err
	}
	for i, path := range tests {
		tests[i], _ = filepath.Rel(r.root, path)
	}
	of, err := hash(r.root, tests...)
	if err != nil {
		return err
	}
	r.harness += " " + of // who survived other tests may not survive these
	r.baseline = filepath.Join(r.dir, "baseline")
	b, err := readBaseline(r.baseline)
	if err != nil || b.Key != a.Key {
		if b, err = r.probe(ctx, r.bin, r.baseline, nil); err != nil {
			return err
		}
	}
	if len(b.Wrong) > 0 && r.despite {
		fmt.Fprintf(r.stderr, "without any mutant %d schedules fail already; they are left out; the first: %s\n", len(b.Wrong), b.Wrong[0])
	} else if len(b.Wrong) > 0 {
		return fmt.Errorf("without any mutant %d schedules fail already, so nothing would be shown; the first: %s", len(b.Wrong), b.Wrong[0])
	}
	return nil
}

// look finds out in which schedules some mutants make a difference at all. Those
// that do so least come first from then on.
func (r *run) look(ctx context.Context, mutants []Mutant) error {
	file := filepath.Join(r.dir, "differences")
	b, err := readBaseline(file)
	if err != nil || b.Key != r.amount.Key || slices.ContainsFunc(mutants, func(m Mutant) bool { return b.Differ[m.N] == nil }) {
		bin, err := compile(r.root, r.dir, r.set, true)
		if err != nil {
			return err
		}
		numbers := []int{}
		for _, m := range mutants {
			numbers = append(numbers, m.N)
		}
		if b, err = r.probe(ctx, bin, file, numbers); err != nil {
			return err
		}
	}
	r.baseline = file
	slices.SortStableFunc(mutants, func(x, y Mutant) int { return b.count(x.N) - b.count(y.N) })
	return nil
}

// probe plays everything without a mutant.
func (r *run) probe(ctx context.Context, bin, file string, watch []int) (*Baseline, error) {
	amount := r.amount
	amount.Watch = watch
	text, err := json.Marshal(&amount)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, bin, "probe", file)
	cmd.Stdin = bytes.NewReader(text)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = r.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	name := "baseline"
	if len(watch) > 0 {
		name = fmt.Sprintf("where %d mutants differ", len(watch))
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var at []int
		if json.Unmarshal(lines.Bytes(), &at) == nil && len(at) == 2 {
			fmt.Fprintf(r.stderr, "\r%s: %d of %d schedules ", name, at[0], at[1])
		}
	}
	fmt.Fprintln(r.stderr)
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return readBaseline(file)
}

// hash is of all sources in some files and below some folders; tests count only where
// a file is named.
func hash(root string, dirs ...string) (string, error) {
	h := sha256.New()
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			ext := filepath.Ext(path)
			if strings.HasSuffix(path, "_test.go") && path != filepath.Join(root, dir) || ext != ".go" && ext != ".txt" {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, path)
			fmt.Fprintf(h, "%s %d\n", rel, len(text))
			h.Write(text)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// load reads the results of earlier runs that still say something: whatever was
// noticed of this core; whatever was not noticed of this core by these schedules.
func (r *run) load(name string) error {
	r.results = map[string]Result{}
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range bytes.Lines(text) {
		var x Result
		if json.Unmarshal(line, &x) != nil {
			continue // cut off when a run was stopped
		}
		if x.Core == r.core && (x.By != "" || x.Harness == r.harness) {
			r.results[x.ID] = x
		}
	}
	if r.file, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		_, err = r.file.WriteString("\n")
	}
	return err
}

// play plays the mutants that have no result yet, on some processes: first what is
// noticed soon, then the core's own tests, which take as long as a few schedules,
// then everything.
func (r *run) play(ctx context.Context, mutants []Mutant) error {
	defer r.file.Close()
	left := mutants
	for _, stage := range []func(context.Context, []Mutant) error{r.playQuickly, r.test, r.playWholly} {
		left = slices.DeleteFunc(slices.Clone(left), func(m Mutant) bool { _, ok := r.results[m.ID]; return ok })
		if len(left) == 0 {
			return nil
		}
		r.todo, r.done, r.began = len(left), 0, time.Now()
		err := stage(ctx, left)
		fmt.Fprintln(r.stderr)
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) playQuickly(ctx context.Context, left []Mutant) error {
	return r.hand(ctx, left, quickly)
}

func (r *run) playWholly(ctx context.Context, left []Mutant) error {
	if r.few {
		return nil
	}
	if err := r.look(ctx, left); err != nil {
		return err
	}
	r.began = time.Now()
	return r.hand(ctx, left, wholly)
}

// test asks the core's own tests.
func (r *run) test(ctx context.Context, left []Mutant) error {
	bin, err := compileTests(r.root, r.dir, r.set)
	if err != nil {
		return err
	}
	if what := r.ask(ctx, bin, 0); what != "" {
		return fmt.Errorf("without any mutant the core's tests fail already: %s", what)
	}
	return r.share(ctx, left, func(queue <-chan Mutant) error {
		for m := range queue {
			_, same := r.equivalent[m.ID] // of those a line says that more schedules would not help
			v := Verdict{N: m.N, Quick: !same}
			if what := r.ask(ctx, bin, m.N); what != "" && ctx.Err() == nil {
				v.By, v.What = byTest, what
			}
			if err := r.keep(m, v); err != nil {
				return err
			}
		}
		return nil
	})
}

// ask runs the core's tests with a mutant in and tells what fails first.
func (r *run) ask(ctx context.Context, bin string, n int) string {
	cmd := exec.CommandContext(ctx, bin, "-test.short", "-test.failfast", "-test.timeout=1m")
	cmd.Dir = filepath.Join(r.root, "internal", "core")
	cmd.Env = append(os.Environ(), fmt.Sprintf("ROTA_MUTANT=%d", n))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic:") {
			return strings.TrimSpace(line)
		}
	}
	return err.Error()
}

// hand gives mutants to processes that play them.
func (r *run) hand(ctx context.Context, all []Mutant, how string) error {
	return r.share(ctx, all, func(queue <-chan Mutant) error { return r.serve(ctx, queue, how) })
}

// share does some work on all mutants, r.procs at a time.
func (r *run) share(ctx context.Context, all []Mutant, work func(queue <-chan Mutant) error) error {
	queue := make(chan Mutant)
	go func() {
		defer close(queue)
		for _, m := range all {
			select {
			case queue <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	var wg sync.WaitGroup
	errs := make([]error, r.procs)
	for i := range r.procs {
		wg.Go(func() {
			errs[i] = work(queue)
			for range queue { // let the sender end
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}

// serve keeps one process busy, and starts another when it has ended.
func (r *run) serve(ctx context.Context, queue <-chan Mutant, how string) error {
	var c *process
	defer func() { c.end() }()
	for m := range queue {
		var v Verdict
		for try := 0; ; try++ {
			if c == nil {
				var err error
				if c, err = startProcess(ctx, r.bin, r.baseline); err != nil {
					return err
				}
			}
			var err error
			v, err = c.play(m.N, how)
			if ctx.Err() != nil {
				return nil
			}
			if err == nil && v.Failed != "" {
				return errors.New(v.Failed)
			}
			if err == nil {
				break
			}
			why := c.end()
			c = nil
			if try > 0 { // twice: that was no accident
				v = Verdict{N: m.N, By: byHang, What: "the process ended: " + why}
				break
			}
		}
		if v.By == byHang && c != nil {
			c.end()
			c = nil
		}
		if err := r.keep(m, v); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) keep(m Mutant, v Verdict) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	if !v.Quick || v.By != "" {
		x := Result{ID: m.ID, Core: r.core, Harness: r.harness, Verdict: v}
		r.results[m.ID] = x
		line, err := json.Marshal(x)
		if err != nil {
			return err
		}
		if _, err := r.file.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	noticed := 0
	for _, x := range r.results {
		if x.By != "" {
			noticed++
		}
	}
	took := time.Since(r.began)
	fmt.Fprintf(r.stderr, "\r%d of %d played, %d of %d noticed, about %v to go   ", r.done, r.todo, noticed, len(r.results),
		(took / time.Duration(r.done) * time.Duration(r.todo-r.done)).Round(time.Second))
	return nil
}

// A process plays mutants.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	stderr bytes.Buffer
}

func startProcess(ctx context.Context, bin, baseline string) (*process, error) {
	c := &process{cmd: exec.CommandContext(ctx, bin, "child", baseline)}
	c.cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // one process, one core
	c.cmd.Stderr = &c.stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	c.out.Buffer(nil, 1<<20)
	return c, c.cmd.Start()
}

func (c *process) play(n int, how string) (v Verdict, err error) {
	if _, err := fmt.Fprintln(c.in, n, how); err != nil {
		return v, err
	}
	if !c.out.Scan() {
		return v, io.ErrUnexpectedEOF
	}
	err = json.Unmarshal(c.out.Bytes(), &v)
	if err == nil && v.N != n {
		err = fmt.Errorf("asked for %d, told of %d", n, v.N)
	}
	return v, err
}

// end stops the process and tells the first lines of what it complained of.
func (c *process) end() string {
	if c == nil {
		return ""
	}
	c.in.Close()
	c.cmd.Process.Kill() // it may be gone already
	c.cmd.Wait()         // killed, so an error is sure
	lines := strings.Split(strings.TrimSpace(c.stderr.String()), "\n")
	return strings.Join(lines[:min(3, len(lines))], "; ")
}

// sorted are the mutants in the order in which they are played: any, but always
// the same, so that a run that was stopped shows a fair part.
func sorted(all []Mutant, rank func(string) uint64) []Mutant {
	out := slices.Clone(all)
	slices.SortFunc(out, func(a, b Mutant) int {
		x, y := rank(a.ID), rank(b.ID)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}
