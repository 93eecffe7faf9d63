package rotarabbit

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The API is asked as often as list-every says, and each of its answers counts as one listing,
// however often Partitions is called.
func TestAnAnswerIsOneListing(t *testing.T) {
	var asked atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		io.WriteString(w, `[{"name":"q.0"}]`)
	}))
	defer api.Close()
	s := Source("amqp://a?queues=q.*&list-every=100ms&management=" + url.QueryEscape(api.URL)).(*source)
	news, calls := 0, 0
	for began := time.Now(); asked.Load() < 3; calls++ {
		names, err := s.found(t.Context())
		if err != nil || strings.Join(names, " ") != "q.0" {
			t.Fatalf("listed are %q, %v", names, err)
		}
		if s.ListsAll() {
			news++
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the API was asked %d times in a minute", asked.Load())
		}
	}
	if news != 3 || calls < 4 {
		t.Errorf("3 answers of the API count as %d listings in %d calls", news, calls)
	}
}

func TestListing(t *testing.T) {
	all, err := readListing([]byte(`[
		{"name":"old","vhost":"/","durable":true,"arguments":{}},
		{"name":"typed","type":"classic","arguments":{"x-queue-type":"classic"}},
		{"name":"sac","type":"classic","arguments":{"x-single-active-consumer":true}},
		{"name":"q","type":"quorum","arguments":{"x-queue-type":"quorum"}},
		{"name":"qs","type":"quorum","arguments":{"x-queue-type":"quorum","x-single-active-consumer":true,"x-delivery-limit":7}},
		{"name":"four","type":"quorum","arguments":{"x-single-active-consumer":true},"delivery_limit":20},
		{"name":"policy","type":"quorum","arguments":{"x-single-active-consumer":true,"x-delivery-limit":50},"effective_policy_definition":{"delivery-limit":9}},
		{"name":"unlimited","type":"quorum","arguments":{"x-single-active-consumer":true},"delivery_limit":"unlimited"},
		{"name":"untold","arguments":{"x-queue-type":"stream"}},
		{"name":"brief","auto_delete":true},
		{"name":""}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		facts
		fence
	}{
		"old":       {facts{classic, false, false, 0}, exclusive},
		"typed":     {facts{classic, false, false, 0}, exclusive},
		"sac":       {facts{classic, true, false, 0}, single},
		"q":         {facts{quorum, false, false, 0}, none},
		"qs":        {facts{quorum, true, false, 7}, single},
		"four":      {facts{quorum, true, false, 20}, single},
		"policy":    {facts{quorum, true, false, 9}, single},
		"unlimited": {facts{quorum, true, false, 0}, single},
		"untold":    {facts{"stream", false, false, 0}, none},
		"brief":     {facts{classic, false, true, 0}, exclusive},
	} {
		if got := all[name]; got != want.facts || got.fence() != want.fence {
			t.Errorf("%s is %+v with fence %d, want %+v with %d", name, got, got.fence(), want.facts, want.fence)
		}
	}
	if len(all) != 10 {
		t.Errorf("%d queues, want 10", len(all))
	}
}

// FuzzListing reads answers of something that may not be RabbitMQ.
func FuzzListing(f *testing.F) {
	f.Add([]byte(`[{"name":"q","type":"quorum","arguments":{"x-single-active-consumer":true,"x-delivery-limit":1e300}}]`))
	f.Add([]byte(`{"error":"Object Not Found"}`))
	f.Add([]byte(`[null,{"name":"q","arguments":null,"effective_policy_definition":[]}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := readListing(body)
		for name, q := range all {
			if name == "" || q.kind == "" || q.limit < 0 || q.limit > 1<<30 || err != nil {
				t.Errorf("%q has queue %q: %+v, %v", body, name, q, err)
			}
		}
	})
}
