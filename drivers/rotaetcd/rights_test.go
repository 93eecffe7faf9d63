package rotaetcd_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/rotatest"
)

// TestRightsDoWhatTheyShould runs the commands of docs/stores/etcd.md, lets a member work
// with its rights, and tries what each user may do and what not.
func TestRightsDoWhatTheyShould(t *testing.T) {
	t.Parallel()
	s := rotatest.StartEtcd(t)
	newAdmin(t, s.Addr(), insecure.NewCredentials()).run(commandsOf(t))
	as := func(user string) rota.Store {
		store := rotaetcd.Store("etcd://" + user + ":" + hidden + "@" + s.Addr())
		t.Cleanup(func() { store.Close() })
		return store
	}
	stop := member(t, as("orders-member"))
	eventually(t, "an observer sees that the member owns its partition", func() bool {
		st, err := rota.Inspect(t.Context(), as("observer"), "orders")
		return err == nil && len(st.Partitions) == 1 && st.Partitions[0].Owner != ""
	})

	stop()

	root := as("root")
	for _, key := range []string{"orders/x", "orders/orders", "billing/x"} {
		if _, err := root.Put(t.Context(), key, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	for user, may := range map[string]struct{ read, write []string }{
		"orders-member":   {[]string{"orders/x", "orders/orders"}, []string{"orders/x", "orders/orders"}},
		"orders-operator": {[]string{"orders/x", "orders/orders"}, []string{"orders/orders"}},
		"observer":        {[]string{"orders/x", "orders/orders", "billing/x"}, nil},
	} {
		c := as(user)
		for _, key := range []string{"orders/x", "orders/orders", "billing/x"} {
			e, err := c.Get(t.Context(), key)
			allowed(t, user+" reads "+key, slices.Contains(may.read, key), err)
			allowed(t, user+" watches "+key, slices.Contains(may.read, key), watches(t, c, key))
			if !slices.Contains(may.read, key) {
				e, _ = root.Get(t.Context(), key)
			}
			_, err = c.Put(t.Context(), key, nil, e.Rev)
			allowed(t, user+" writes "+key, slices.Contains(may.write, key), err)
		}
	}
	allowed(t, "observer watches all of billing", true, watches(t, as("observer"), "billing/"))
	allowed(t, "orders-member watches all of billing", false, watches(t, as("orders-member"), "billing/"))
}

// allowed expects an error for want of a right, or none.
func allowed(t *testing.T, what string, may bool, err error) {
	t.Helper()
	switch {
	case may && err != nil:
		t.Errorf("%s: %v", what, err)
	case !may && !errors.Is(err, rota.ErrPermanent):
		t.Errorf("%s: %v, want a permanent refusal", what, err)
	}
}

// watches returns the error of a watch before its first batch.
func watches(t *testing.T, s rota.Store, prefix string) error {
	for _, err := range s.Watch(t.Context(), prefix) {
		return err
	}
	return nil
}

// member runs a member of the group orders until it is stopped.
func member(t *testing.T, s rota.Store) (stop func()) {
	t.Helper()
	m, err := rota.New(rota.Config{Group: "orders", Name: "m1", Store: s, Source: rotatest.NewMemSource(1, "q"),
		NewGroup: true, Handle: func(context.Context, rota.Message) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the member: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the member does not end")
		}
	}
}
