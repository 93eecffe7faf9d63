package rotanats_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

// TestNewRefusesWhatCannotWork checks that mistakes in a URL, and settings without an
// effect, are found before anything is dialled.
func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	const good = "nats://h?stream=S&subject=o.*"
	for _, c := range []struct {
		store  rota.Store
		source rota.Source
		says   string
	}{
		{rotanats.Store("nats//h"), nil, "Config.Store: rotanats: not an address of NATS"},
		{rotanats.Store("nats://h?bukket=b"), nil, "Config.Store: rotanats: the URL has an unknown parameter bukket"},
		{rotanats.Store(good), nil, "Config.Store: rotanats: the URL's parameter stream: it is for a source: leave it out"},
		{rotanats.Store("nats://h?shared=true"), nil, "shared: it is for a folder"},
		{rotanats.Store("folder:d?nkey=k"), nil, "nkey: a folder's server is reached through its socket"},
		{rotanats.Store("embed:d"), nil, "no server is linked into this program"},
		{nil, rotanats.Source("nats://h?stream=S"), `Config.Source: rotanats: subject ""`},
		{nil, rotanats.Source(good + "&bucket=b"), "Config.Source: rotanats: the URL's parameter bucket: it is for a store"},
		{nil, rotanats.Source(good + "&sync=always"), "sync: it is for a store"},
		{nil, rotanats.Source(good, rotanats.AsItIs()), "the option AsItIs is for a store"},
	} {
		if c.store == nil {
			c.store = rotatest.NewMemStore()
		}
		if c.source == nil {
			c.source = rotatest.NewMemSource(1, "q")
		}
		_, err := rota.New(rota.Config{Group: "g", Store: c.store, Source: c.source, Handle: func(context.Context, rota.Message) error { return nil }})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("New returned %v, want %q", err, c.says)
		}
	}
}

// TestWhatWaitingDoesNotHelp checks which errors of a first call are permanent: those
// end a member, the others are waited for.
func TestWhatWaitingDoesNotHelp(t *testing.T) {
	t.Parallel()
	s := serve(t)
	guarded := serveTCP(t, filepath.Join(t.TempDir(), "data"), "nats://HOST?token="+hidden)
	defer guarded.Close()
	list := func(url string) error {
		_, err := rotanats.Source(url).Partitions(t.Context())
		return err
	}
	odd := newBuckets(t, s.URL()).makeOdd()
	for name := range odd {
		if err := works(t, rotanats.Store(s.URL()+"?bucket="+name)); !errors.Is(err, rota.ErrPermanent) {
			t.Errorf("bucket %s: %v is not permanent", name, err)
		}
	}
	for what, c := range map[string]struct {
		err       error
		permanent bool
	}{
		"no stream":          {list(s.URL() + "?stream=NONE&subject=o.*&partitions=2"), true},
		"a wrong token":      {works(t, rotanats.Store("nats://"+guarded.Addr()+"?token=x"+hidden)), true},
		"no token":           {list("nats://" + guarded.Addr() + "?stream=S&subject=o.*"), true},
		"no such file":       {works(t, rotanats.Store(s.URL()+"?creds="+filepath.Join(t.TempDir(), "none"))), true},
		"nobody listens":     {works(t, rotanats.Store("nats://127.0.0.1:1")), false},
		"an unknown host":    {list("nats://no-such-host.invalid?stream=S&subject=o.*"), false},
		"nobody serves it":   {works(t, rotanats.Store("folder:"+t.TempDir())), false},
		"a stream to create": {list(s.URL() + "?stream=NEW&subject=new.*&partitions=2&create=true"), false},
	} {
		if errors.Is(c.err, rota.ErrPermanent) != c.permanent {
			t.Errorf("%s: permanent is %v of %v", what, !c.permanent, c.err)
		}
		silent(t, what, c.err)
	}
}

// TestATimeoutSaysWhatFailedBefore calls a store whose server cannot be reached, with
// so little time that a dial takes longer: the error names the cause that is known from
// the first dial.
func TestATimeoutSaysWhatFailedBefore(t *testing.T) {
	t.Parallel()
	s := rotanats.Store("nats://127.0.0.1:1")
	defer s.Close()
	if err := works(t, s); err == nil {
		t.Fatal("somebody listens on port 1")
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if _, err := s.Get(ctx, "k"); err == nil || !strings.Contains(err.Error(), "the last error was: nats: no servers available") {
		t.Errorf("%v does not say why", err)
	}
}

// TestRunNamesTheMistake runs members that cannot work: Run returns the driver's words,
// long before it would count as orphaned.
func TestRunNamesTheMistake(t *testing.T) {
	t.Parallel()
	s := serve(t)
	guarded := serveTCP(t, filepath.Join(t.TempDir(), "data"), "nats://HOST?token="+hidden)
	defer guarded.Close()
	b := newBroker(t, s.URL())
	l := newLedger(t)
	for what, c := range map[string]struct {
		store  rota.Store
		source rota.Source
		says   string
	}{
		"no stream":     {rotatest.NewMemStore(), rotanats.Source(s.URL() + "?stream=NONE&subject=o.*&partitions=2"), "there is no stream NONE at " + s.URL() + ": create it"},
		"a wrong token": {rotanats.Store("nats://" + guarded.Addr() + "?token=wrong"), b.Source(), "Authorization Violation"},
	} {
		ended := l.member("c1", c.store, c.source, func(cfg *rota.Config) { cfg.Orphan = time.Hour })
		select {
		case err := <-ended:
			if !errors.Is(err, rota.ErrPermanent) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: Run returned %v, want %q", what, err, c.says)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: Run goes on", what)
		}
	}
}
