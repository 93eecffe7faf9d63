package rota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/core"
	"github.com/rota-dev/rota/internal/record"
)

// An Order asks a group for something, as an operator does by the rota command.
type Order struct {
	// Do is the verb, and Args are what it is about:
	//
	//	pause, resume                   partitions
	//	drain, undrain                  members, by name
	//	pin                             a partition and a member
	//	unpin                           partitions
	//	ban                             a partition and members
	//	unban                           a partition, and members unless all its bans are meant
	//	freeze, thaw                    nothing
	//	add, remove                     partitions
	//	set                             a partition and KEY=VALUE, KEY= to remove a key
	//	set-topic                       a topic, likewise
	//	release                         a partition and its PartitionInfo.Deaths
	Do   string
	Args []string

	Who string // for people, in the log of orders: who wants it
	Why string // and why

	What string // how the log tells it, if not by Do and Args
}

// ErrOrder means that an order cannot be given: it is none, contradicts another one, or
// asks for more than a group can store.
var ErrOrder = errors.New("rota: the order is refused")

// refusedOrder is an ErrOrder that says only what is wrong.
type refusedOrder struct{ error }

func (r refusedOrder) Is(target error) bool { return target == ErrOrder }
func (r refusedOrder) Unwrap() error        { return r.error }

// mostOrders is how many orders of the past are kept, and mostWhat how many bytes of what
// each was. Metadata may be longer.
const (
	mostOrders = 100
	mostWhat   = 512
)

// Give gives a group an order, without joining it, and returns the version of the orders
// that has it. The leader makes a plan that obeys it: that has happened once
// Status.Orders.Obeyed is no lower than the version. An order that is in effect already
// changes nothing, and changed is false.
//
// Names are not compared with those of the group, since a member may come later: a name
// that is misspelt stands in the orders until it is taken back. Inspect has the names.
func Give(ctx context.Context, store Store, group string, o Order) (ver uint64, changed bool, err error) {
	if _, err := store.Get(ctx, key(group, core.Key{Cell: core.PlanCell})); err != nil {
		return 0, false, fmt.Errorf("order for %s: %w", group, err)
	}
	at := key(group, core.Key{Cell: core.OrdersCell})
	for {
		x, rev, err := readOrders(ctx, store, at)
		if err != nil {
			return 0, false, fmt.Errorf("order for %s: %w", group, err)
		}
		before := *x // record.Orders.Give writes to none of its lists
		changed, err := x.Give(o.Do, o.Args...)
		if err == nil { // it has the arguments that its verb needs
			err = contradiction(x, &o)
		}
		if err != nil {
			return 0, false, refusedOrder{err}
		}
		if !changed {
			return x.Ver, false, nil
		}
		x.Ver++
		x.Log = append(x.Log, o.logged())
		x.Log = x.Log[max(0, len(x.Log)-mostOrders):]
		b, err := record.Encode(x)
		if err != nil {
			return 0, false, refusedOrder{err}
		}
		if err := fitsRoster(ctx, store, group, x, &before); err != nil {
			return 0, false, err
		}
		if _, err = store.Put(ctx, at, b, rev); err == nil {
			return x.Ver, true, nil
		}
		if !errors.Is(err, ErrConflict) {
			return 0, false, fmt.Errorf("order for %s: %w", group, err)
		}
	}
}

func (o *Order) logged() record.Order {
	what := cmp.Or(o.What, strings.TrimSpace(o.Do+" "+strings.Join(o.Args, " ")))
	if len(what) > mostWhat {
		what = strings.ToValidUTF8(what[:mostWhat], "") + "…"
	}
	return record.Order{At: time.Now().UnixMilli(), Who: o.Who, What: what, Why: o.Why}
}

func readOrders(ctx context.Context, store Store, at string) (*record.Orders, Rev, error) {
	e, err := store.Get(ctx, at)
	switch {
	case errors.Is(err, ErrNotFound):
		return &record.Orders{}, 0, nil
	case err != nil:
		return nil, 0, err
	}
	x, err := record.DecodeOrders(e.Value)
	if err != nil {
		return nil, 0, fmt.Errorf("the orders in the store: %w: %w; rota group repair mends it", ErrUnreadable, err)
	}
	return x, e.Rev, nil
}

// contradiction refuses a pin and a ban of one partition and one member: the planner
// follows the pin, and a ban that is not obeyed keeps nothing away.
func contradiction(x *record.Orders, o *Order) error {
	if o.Do != "pin" && o.Do != "ban" {
		return nil
	}
	for _, b := range x.Bans {
		switch {
		case b.Partition != o.Args[0] || !slices.Contains(x.Pins, b):
		case o.Do == "pin":
			return fmt.Errorf("%s is kept away from %s by order: rota unban %s %s first", b.Partition, b.Member, b.Partition, b.Member)
		default:
			return fmt.Errorf("%s is pinned to %s by order: rota unpin %s first", b.Partition, b.Member, b.Partition)
		}
	}
	return nil
}

// fitsRoster refuses orders with which no roster could be written: the leader would have
// to leave them undone.
func fitsRoster(ctx context.Context, store Store, group string, x, before *record.Orders) error {
	e, err := store.Get(ctx, key(group, core.Key{Cell: core.RosterCell}))
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("order for %s: %w", group, err)
	}
	r, err := record.DecodeRoster(e.Value)
	if err != nil {
		return fmt.Errorf("the roster in the store: %w: %w; rota group repair mends it", ErrUnreadable, err)
	}
	if err := x.Fit(r, before); err != nil {
		return refusedOrder{fmt.Errorf("the group could not write that down: %w", err)}
	}
	return nil
}
