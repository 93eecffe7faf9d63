package rotarabbit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"time"
)

// A manager asks the management API which queues there are, and of what type. AMQP itself
// does not tell that. One answer has all queues of the virtual host, and is kept for a
// while: RabbitMQ's operators ask for few requests.
type manager struct {
	set   *settings
	asked chan listing // has one element, unless somebody asks
}

// A listing is what the API answered.
type listing struct {
	queues map[string]facts
	at     time.Time // of the answer, or of the error
	err    error
	early  int // requests in a row that were made while the last answer was good
}

const (
	listAgain  = 5 * time.Second // the least time between two requests; it doubles while they bring nothing
	manageTime = 5 * time.Second
	mostAnswer = 64 << 20 // bytes
)

func newManager(set *settings) *manager {
	m := &manager{set: set, asked: make(chan listing, 1)}
	m.asked <- listing{}
	return m
}

// list returns the queues of the virtual host. An answer that is older than since is not
// good enough, but requests have pauses between.
func (m *manager) list(ctx context.Context, since time.Time) (listing, error) {
	select {
	case l := <-m.asked:
		defer func() { m.asked <- l }()
		age := time.Since(l.at)
		switch {
		case l.err == nil && age > m.set.listEvery:
			l = m.ask(ctx, l, 0)
		case (l.err != nil || l.at.Before(since)) && age > min(listAgain<<min(l.early, 10), m.set.listEvery):
			l = m.ask(ctx, l, l.early+1)
		}
		return l, l.err
	case <-ctx.Done():
		return listing{}, ctx.Err()
	}
}

// ask asks one address after another. The former answer is kept beside an error.
func (m *manager) ask(ctx context.Context, former listing, early int) listing {
	var errs []error
	for _, api := range m.set.apis() {
		queues, err := m.request(ctx, api)
		if err == nil {
			return listing{queues, time.Now(), nil, early}
		}
		errs = append(errs, fmt.Errorf("%s: %w", api, err))
	}
	if ctx.Err() != nil {
		return listing{former.queues, former.at, ctx.Err(), former.early} // nobody has refused anything
	}
	return listing{former.queues, time.Now(), fmt.Errorf("the management API: %w", together(errs)), early}
}

func (m *manager) request(ctx context.Context, api string) (map[string]facts, error) {
	ctx, cancel := context.WithTimeout(ctx, manageTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/api/queues/"+neturl.PathEscape(m.set.vhost)+"?disable_stats=true&enable_queue_totals=true", nil)
	if err != nil {
		return nil, err
	}
	user, password, err := m.set.account()
	if err != nil {
		return nil, permanent{err}
	}
	req.SetBasicAuth(user, password)
	transport := &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}
	if req.URL.Scheme == "https" {
		if transport.TLSClientConfig, err = m.set.TLSConfig(); err != nil {
			return nil, permanent{err}
		}
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return readListing(body)
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, permanent{fmt.Errorf("it refuses user %s: give it the tag management, or the right password (%s)", user, resp.Status)}
	case http.StatusNotFound:
		return nil, permanent{fmt.Errorf("there is no virtual host %s (%s)", m.set.vhost, resp.Status)}
	}
	return nil, fmt.Errorf("it answers %s", resp.Status)
}

// facts are what the fence of a queue depends on.
type facts struct {
	kind       string // classic, quorum, stream
	single     bool   // it has a single active consumer
	autoDelete bool
	limit      int // x-delivery-limit; 0 for none
}

var errListing = errors.New("it does not answer with a list of queues")

// readListing reads the answer of the API. Fields that it does not know are of no interest,
// and a queue whose type is not told is of the type that its arguments name.
func readListing(body []byte) (map[string]facts, error) {
	var list []struct {
		Name       string         `json:"name"`
		Type       string         `json:"type"`
		AutoDelete bool           `json:"auto_delete"`
		Arguments  map[string]any `json:"arguments"`
		Limit      any            `json:"delivery_limit"`
		Policy     map[string]any `json:"effective_policy_definition"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("%w: %w", errListing, err)
	}
	all := map[string]facts{}
	for _, q := range list {
		if q.Name == "" {
			continue
		}
		f := facts{kind: q.Type, autoDelete: q.AutoDelete}
		if f.kind == "" {
			f.kind, _ = q.Arguments["x-queue-type"].(string)
		}
		if f.kind == "" {
			f.kind = classic
		}
		f.single, _ = q.Arguments["x-single-active-consumer"].(bool)
		for _, limit := range []any{q.Limit, q.Arguments["x-delivery-limit"], q.Policy["delivery-limit"]} {
			if n, ok := limit.(float64); ok && n > 0 && (f.limit == 0 || int(n) < f.limit) {
				f.limit = int(min(n, 1<<30))
			}
		}
		all[q.Name] = f
	}
	return all, nil
}
