package rotanats_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/rota-dev/rota/rotatest"
)

// TestFreshBucketSuitsEverybody starts many stores at the same moment where there is no
// bucket yet, each with another verb. Every first call must succeed, although another
// store may be creating the bucket.
func TestFreshBucketSuitsEverybody(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		for range 10 {
			dir := filepath.Join(t.TempDir(), "data")
			allBegin(t, func() rota.Store { return embedded.Store("embed:" + dir) })
		}
	})
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		s := rotatest.StartNATS(t)
		for i := range 20 {
			allBegin(t, func() rota.Store { return rotanats.Store(fmt.Sprintf("%s?bucket=b%d", s.URL(), i)) })
		}
	})
	t.Run("three servers", func(t *testing.T) {
		t.Parallel()
		c := startCluster(t)
		for i := range 10 {
			allBegin(t, func() rota.Store { return rotanats.Store(fmt.Sprintf("%s?bucket=b%d", c.URL(), i)) })
		}
	})
}

func allBegin(t *testing.T, open func() rota.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	verbs := []func(rota.Store, int) error{
		func(s rota.Store, _ int) error { _, err := s.Get(ctx, "g/none"); return err },
		func(s rota.Store, i int) error { _, err := s.Put(ctx, fmt.Sprint("g/", i), nil, 0); return err },
		func(s rota.Store, _ int) error { return s.Delete(ctx, "g/none", 7) },
		func(s rota.Store, _ int) (err error) {
			for _, err = range s.Watch(ctx, "g/") {
				break
			}
			return err
		},
	}
	answers := []error{rota.ErrNotFound, nil, rota.ErrConflict, nil}
	names := []string{"Get", "Put", "Delete", "Watch"}
	var all sync.WaitGroup
	now := make(chan struct{})
	for i := range 16 {
		s := open()
		defer s.Close() // not before all are done, since the embedded ones share a server
		all.Go(func() {
			<-now
			k := i % len(verbs)
			if err := verbs[k](s, i); !errors.Is(err, answers[k]) {
				t.Errorf("%s on a fresh bucket: %v, want %v", names[k], err, answers[k])
			}
		})
	}
	close(now)
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
