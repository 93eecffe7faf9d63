package rotaaws

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A board is CloudWatch as far as Metrics knows it.
type board struct {
	t *testing.T

	mu      sync.Mutex
	data    []datum
	calls   int
	largest int              // bytes of a call
	zipped  int              // calls
	answer  http.HandlerFunc // in place of its own
}

type datum struct {
	namespace, name, unit, of string
	value                     float64 // of durations their number
	at                        time.Time
}

func (b *board) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.calls++
	answer := b.answer
	b.mu.Unlock()
	w.Header().Set("smithy-protocol", "rpc-v2-cbor")
	if answer == nil {
		answer = b.serve
	}
	answer(w, r)
}

// serve stores the data of a call.
func (b *board) serve(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/operation/PutMetricData") || !strings.Contains(r.Header.Get("Authorization"), keyID) {
		b.t.Errorf("%s %s, %v", r.Method, r.URL, r.Header)
	}
	body, err := io.ReadAll(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, _ := gzip.NewReader(bytes.NewReader(body))
		body, err = io.ReadAll(z)
		b.mu.Lock()
		b.zipped++
		b.mu.Unlock()
	}
	if err != nil {
		b.t.Error(err)
	}
	v, err := cbor.Decode(body)
	if err != nil {
		b.t.Error(err)
	}
	m := v.(cbor.Map)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.largest = max(b.largest, len(m["MetricData"].(cbor.List)))
	for _, x := range m["MetricData"].(cbor.List) {
		b.data = append(b.data, readDatum(b.t, string(m["Namespace"].(cbor.String)), x.(cbor.Map)))
	}
	w.Header().Set("Content-Type", "application/cbor")
	w.Write(cbor.Encode(cbor.Map{}))
}

func readDatum(t *testing.T, namespace string, m cbor.Map) datum {
	text := func(v cbor.Value) string { return string(v.(cbor.String)) }
	d := datum{namespace: namespace, name: text(m["MetricName"]), unit: text(m["Unit"])}
	var err error
	if d.at, err = cbor.AsTime(m["Timestamp"]); err != nil {
		t.Error(err)
	}
	value := m["Value"]
	if s, ok := m["StatisticValues"].(cbor.Map); ok {
		value = s["SampleCount"]
	}
	if d.value, err = cbor.AsFloat64(value); err != nil {
		t.Error(err)
	}
	for _, x := range m["Dimensions"].(cbor.List) {
		d.of += text(x.(cbor.Map)["Name"]) + "=" + text(x.(cbor.Map)["Value"]) + " "
	}
	return d
}

// newest is the last value of a metric that was published.
func (b *board) newest(name, of string) (v float64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.data {
		if d.name == name && strings.TrimSpace(d.of) == of {
			v, ok = d.value, true
		}
	}
	return v, ok
}

// refuseData answers as CloudWatch does when it does not accept something.
func refuseData(status int, code, words string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/cbor")
		w.WriteHeader(status)
		w.Write(cbor.Encode(cbor.Map{"__type": cbor.String("com.amazonaws.cloudwatch#" + code), "message": cbor.String(words)}))
	}
}

// reports are what Metrics reported.
type reports struct {
	mu   sync.Mutex
	said []string
}

func (r *reports) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprint(err))
}

func (r *reports) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.said)
}

// metrics are Metrics that publish to the board, and what they report.
func (b *board) metrics(t *testing.T, said *reports) *Metrics {
	c := signed()
	c.Region, c.HTTPClient = "eu-test-1", &http.Client{Transport: direct{b}}
	p, err := CloudWatch("Orders/rota", Using(c), Failed(said.add))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// member runs a member whose metrics are published, and returns it with a function that
// makes it leave and waits for the last publication.
func (b *board) member(t *testing.T, store *rotatest.MemStore, name string, said *reports, change ...func(*rota.Config)) (leave func()) {
	cfg := rota.Config{Group: "orders", Store: store, Name: name, NewGroup: true, Log: slog.New(slog.DiscardHandler),
		Source: rota.Func([]string{"q0", "q1", "q2"}, func(ctx context.Context, own rota.Ownership) error {
			select {
			case <-own.Stop():
			case <-ctx.Done():
			}
			return nil
		})}
	for _, f := range change {
		f(&cfg)
	}
	m, err := rota.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	wait := b.metrics(t, said).Publish(context.WithoutCancel(ctx), m, store)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := m.Run(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}()
	return func() {
		cancel()
		<-ended
		wait()
	}
}

// The leader publishes for the group and each member for itself, once a minute.
func TestMetricsOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, store, reports := &board{t: t}, rotatest.NewMemStore(), &reports{}
		leave1 := b.member(t, store, "c1", reports)
		time.Sleep(30 * time.Second)
		leave2 := b.member(t, store, "c2", reports)
		time.Sleep(3 * time.Minute)
		for _, want := range []struct {
			name, of string
			value    float64
		}{
			{"Members", "Group=orders", 2},
			{"Partitions", "Group=orders", 3},
			{"PartitionsUnowned", "Group=orders", 0},
			{"PartitionsWaiting", "Group=orders", 0},
			{"Problems", "Group=orders", 0},
			{"Plans", "Group=orders", 0},
			{"PartitionsMoved", "Group=orders", 0},
			{"MembersDead", "Group=orders", 0},
			{"PartitionsOwned", "Group=orders Member=c1", 2},
			{"PartitionsOwned", "Group=orders Member=c2", 1},
			{"Lapses", "Group=orders Member=c2", 0},
			{"DeadLetters", "Group=orders Member=c2", 0},
			{"Conditions", "Group=orders Member=c2", 0},
			{"StartTime", "Group=orders Member=c2", 1},
			{"StopTime", "Group=orders Member=c1", 1},
		} {
			if v, ok := b.newest(want.name, want.of); !ok || v != want.value {
				t.Errorf("%s of %s is %v (%v), want %v", want.name, want.of, v, ok, want.value)
			}
		}
		if n := b.count("Plans", func(d datum) float64 { return d.value }); n < 2 {
			t.Errorf("%v plans were made, and there were two arrivals", n)
		}
		if n := b.count("Members", func(datum) float64 { return 1 }); n < 3 || n > 4 {
			t.Errorf("the group was published %v times in 3.5 minutes", n)
		}
		leave1()
		leave2()
		if v, _ := b.newest("PartitionsOwned", "Group=orders Member=c2"); v != 0 {
			t.Errorf("c2 has left, and its last word is that it owns %v", v)
		}
		if said := reports.all(); len(said) > 0 {
			t.Errorf("reported: %q", said)
		}
		for _, d := range b.data {
			if d.namespace != "Orders/rota" || time.Since(d.at) > time.Hour || !slices.Contains([]string{"Count", "Milliseconds"}, d.unit) {
				t.Errorf("%+v", d)
			}
		}
	})
}

func (b *board) called() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

// count adds something up over all data of a metric.
func (b *board) count(name string, of func(datum) float64) (sum float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.data {
		if d.name == name {
			sum += of(d)
		}
	}
	return sum
}

// What the leader measures is published in its unit.
func TestMetricsOfALoad(t *testing.T) {
	s := &sheet{at: time.Now()}
	s.about("Group", "orders")
	load := rota.LoadInfo{Unit: rota.Bytes, Known: true, Backlog: 7, Speed: 2.5, Wanted: 3}
	s.load(&load)
	s.group(&rota.Status{Load: &load})
	s.group(&rota.Status{Load: &load, Size: &rota.SizeInfo{Wanted: 4}})
	var got []string
	for _, d := range s.data {
		if *d.Value != 0 {
			got = append(got, fmt.Sprint(*d.MetricName, " ", d.Unit, " ", *d.Value))
		}
	}
	if want := "[Backlog Bytes 7 ArrivalRate Bytes/Second 2.5 MembersWanted Count 3 MembersWanted Count 4]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// CloudWatch is away or refuses: data are kept and come later, in few calls; failures are
// reported with growing pauses, and their end; the member notices nothing.
func TestMetricsWaitForCloudWatch(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"throttled": {refuseData(400, "Throttling", "Rate exceeded"), "cloudwatch: PutMetricData: AWS throttles this account: fewer calls, or a higher quota (Throttling: Rate exceeded)"},
		"denied":    {refuseData(403, "AccessDenied", "not authorized"), "cloudwatch: PutMetricData: the credentials lack the right to do it: docs/scalers/aws.md has the policy (AccessDenied: not authorized)"},
		"frozen":    {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "cloudwatch: PutMetricData: no answer: context deadline exceeded"},
		"junk":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "cloudwatch: PutMetricData: the answer cannot be read (HTTP 200): is something else at the address of AWS?"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, reports := &board{t: t, answer: c.answer}, &reports{}
				var lapsed atomic.Int32
				leave := b.member(t, rotatest.NewMemStore(), "c1", reports, func(cfg *rota.Config) {
					cfg.Trace = func(e rota.Event) {
						if e.Kind == rota.EventLapsed || e.Kind == rota.EventStop {
							lapsed.Add(1)
						}
					}
				})
				time.Sleep(10*time.Minute + time.Second)
				if said := reports.all(); len(said) != 4 || said[0] != c.says || said[3] != c.says+" (8 times by now)" {
					t.Errorf("reported %q", said)
				}
				if n := b.called(); n < 9 || n > 11 {
					t.Errorf("%d calls in ten minutes", n)
				}
				b.mu.Lock()
				b.answer = nil
				b.mu.Unlock()
				time.Sleep(2 * time.Minute)
				if said := reports.all(); said[len(said)-1] != "<nil>" || lapsed.Load() > 0 {
					t.Errorf("reported %q; the member stopped %d times", said, lapsed.Load())
				}
				synctest.Wait()
				if n := b.count("Members", func(datum) float64 { return 1 }); n < 11 || b.largest < 100 || b.zipped == 0 {
					t.Errorf("the board has %v of 12 minutes, by calls of up to %d data, %d of them zipped", n, b.largest, b.zipped)
				}
				leave()
			})
		})
	}
}

// A CloudWatch that is away for long costs a bounded memory, and the newest data are kept.
func TestMetricsAreKeptForAWhileOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, reports := &board{t: t, answer: refuseData(503, "ServiceUnavailable", "")}, &reports{}
		leave := b.member(t, rotatest.NewMemStore(), "c1", reports)
		time.Sleep(5 * time.Hour)
		if said := reports.all(); !strings.Contains(said[len(said)-1], " data are lost") {
			t.Errorf("reported %q", said)
		}
		b.mu.Lock()
		b.answer = nil
		b.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if b.largest != mostKept || time.Since(b.data[0].at) > 3*time.Hour {
			t.Errorf("a call of %d data, since %v", b.largest, b.data[0].at)
		}
		leave()
	})
}

// Data that CloudWatch will never accept do not keep others back.
func TestInvalidMetricsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, reports := &board{t: t, answer: refuseData(400, "InvalidParameterValueException", "the value")}, &reports{}
		leave := b.member(t, rotatest.NewMemStore(), "c1", reports)
		for len(reports.all()) == 0 {
			time.Sleep(time.Second)
		}
		if said := reports.all()[0]; !strings.Contains(said, "(InvalidParameterValueException: the value)") || !strings.Contains(said, " data are lost") {
			t.Errorf("reported %q", said)
		}
		b.mu.Lock()
		b.answer = nil
		b.mu.Unlock()
		time.Sleep(time.Minute)
		if n := b.count("Members", func(datum) float64 { return 1 }); n != 1 {
			t.Errorf("%v publications were accepted, want the one after", n)
		}
		leave()
	})
}

// CloudWatch may ask to be left alone for longer than a minute.
func TestMetricsHonourRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, reports := &board{t: t}, &reports{}
		b.answer = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "300")
			refuseData(429, "Throttling", "")(w, r)
		}
		leave := b.member(t, rotatest.NewMemStore(), "c1", reports)
		for b.called() == 0 {
			time.Sleep(time.Second)
		}
		time.Sleep(9 * time.Minute)
		if n := b.called(); n != 2 {
			t.Errorf("%d calls in nine minutes", n)
		}
		leave()
	})
}

// A CloudWatch that is frozen delays the end of the program by 2 s at most, also while it
// is called.
func TestTheLastPublicationIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, reports := &board{t: t, answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}, &reports{}
		for _, called := range []int{0, 1} {
			leave := b.member(t, rotatest.NewMemStore(), "c1", reports)
			for before := b.called(); b.called() < before+called; {
				time.Sleep(time.Second)
			}
			began := time.Now()
			leave()
			if took := time.Since(began); took > lastTime+time.Second {
				t.Errorf("it took %v to leave", took)
			}
		}
	})
}

func TestNamespaces(t *testing.T) {
	for name, ok := range map[string]bool{"rota": true, "Orders/rota #1": true, "": false, " x": false, ":x": false, "AWS/rota": false, "a\nb": false,
		strings.Repeat("n", 255): true, strings.Repeat("n", 256): false} {
		if _, err := CloudWatch(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// What events say is counted, and costs a bounded memory.
func TestCounts(t *testing.T) {
	c := &counts{begun: map[string]time.Time{}}
	began := time.Now()
	add := func(kind rota.EventKind, session, partition string, after time.Duration) {
		c.add(rota.Event{Kind: kind, Session: session, Partition: partition, Time: began.Add(after), Moved: 2})
	}
	add(rota.EventGrant, "s1", "q0", 0)
	add(rota.EventGrant, "s1", "q1", 0)
	add(rota.EventStart, "s1", "q0", 30*time.Millisecond)
	add(rota.EventStart, "s1", "q0", 40*time.Millisecond) // again, after a failure
	add(rota.EventStop, "s1", "q0", 100*time.Millisecond)
	add(rota.EventStopped, "s1", "q0", 110*time.Millisecond)
	add(rota.EventStopped, "s1", "q1", 110*time.Millisecond) // it never started
	add(rota.EventPlan, "s1", "", 0)
	add(rota.EventDead, "s1", "", 0)
	add(rota.EventLapsed, "s1", "", 0)
	add(rota.EventDeadLetter, "s1", "q0", 0)
	add(rota.EventGrant, "s1", "q2", 0)
	add(rota.EventJoined, "s2", "", 0)
	add(rota.EventStart, "s2", "q2", time.Hour) // the grant was another session's
	session, got := c.read()
	want := tally{plans: 1, moved: 2, dead: 1, lapses: 1, letters: 1, start: durations{1, 30, 30, 30}, stop: durations{1, 10, 10, 10}}
	if session != "s2" || got != want {
		t.Errorf("%s %+v, want %+v", session, got, want)
	}
	if _, again := c.read(); again != (tally{}) {
		t.Errorf("read again: %+v", again)
	}
	for n := range 2 * mostBegun {
		add(rota.EventGrant, "s2", fmt.Sprint(n), 0)
	}
	if len(c.begun) > mostBegun {
		t.Errorf("%d starts are measured at a time", len(c.begun))
	}
}

// A dimension has a value that CloudWatch accepts, whatever a member is called.
func TestDimensions(t *testing.T) {
	for text, want := range map[string]string{"c1": "c1", "höst\n": "h?st?", "": "?", "  ": "?", strings.Repeat("x", 2000): strings.Repeat("x", 1024)} {
		if got := ascii(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// The page lists the metrics that are published, and the rights are those of the calls
// that are made.
func TestPageIsTrue(t *testing.T) {
	text, err := os.ReadFile("../../docs/scalers/aws.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	s := &sheet{at: time.Now()}
	load := rota.LoadInfo{Known: true}
	s.group(&rota.Status{Load: &load})
	s.load(&load)
	s.groupCounts(&tally{})
	s.problems(nil)
	s.member(&rota.Status{}, "", &tally{start: durations{n: 1}, stop: durations{n: 1}})
	listed := map[string]bool{}
	_, tables, _ := strings.Cut(page, "The leader publishes for the group")
	for line := range strings.Lines(tables) {
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cells[1], -1) {
				listed[name[1]] = true
			}
		}
	}
	for _, d := range s.data {
		if !listed[*d.MetricName] {
			t.Errorf("%s is not in the page", *d.MetricName)
		}
		delete(listed, *d.MetricName)
	}
	if len(listed) > 0 {
		t.Errorf("the page lists %v, which are not published", listed)
	}
	var allowed []string
	for _, right := range regexp.MustCompile(`"(?:autoscaling|cloudwatch):([A-Z]\w+)"`).FindAllStringSubmatch(page, -1) {
		allowed = append(allowed, right[1])
	}
	want := []string{"DescribeAutoScalingGroups", "SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup", "SetInstanceProtection", "CreateOrUpdateTags", "PutMetricData"}
	if !slices.Equal(allowed, want) {
		t.Errorf("the policy allows %v, and %v are called", allowed, want)
	}
}
