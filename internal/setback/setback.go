// Package setback consumes partitions attempt after attempt, and paces those that fail. The
// library has a back-off of its own, which begins anew with each grant: a partition that was
// given up after a few failures, and granted again, would be tried every second for as long
// as a broker refuses it.
//
// What it does not promise: nothing is remembered beyond the process, or by other members.
package setback

import (
	"context"
	"sync"
	"time"
)

// The pause after the first setback, which doubles, and the longest: how long a partition
// may still stand still after the cause has ended.
const (
	first   = 100 * time.Millisecond
	longest = 5 * time.Second
)

// The pause between two attempts of one Try, which doubles, and the longest.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// A Book has the setbacks of the partitions of one source. Its zero value is ready.
type Book struct {
	mu  sync.Mutex
	all map[string]entry // by partition
}

type entry struct {
	times int       // in a row
	next  time.Time // no attempt before
}

// add records that the partition could not be consumed.
func (b *Book) add(partition string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[string]entry{}
	}
	n := b.all[partition].times
	b.all[partition] = entry{n + 1, time.Now().Add(min(first<<min(n, 10), longest))}
}

// clear records that the partition was consumed.
func (b *Book) clear(partition string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, partition)
}

// A Verdict says what follows from an attempt that failed.
type Verdict byte

const (
	Again  Verdict = iota // the next attempt is due after a pause
	GiveUp                // a setback: the caller learns of it, and its next attempts are paced
	Over                  // not the partition's fault: the caller learns of it
)

// Away is how long attempts fail, since the broker cannot be reached or refuses to work, before
// the caller learns of it anyway. An attempt that lasted longer has worked.
const Away = 5 * time.Second

// Try consumes a partition, attempt after attempt, until one ends without an error, stop is
// closed, ctx ends, or a verdict ends it. An attempt attaches once and delivers until it
// fails or stops; it has worked if it was of use. A verdict is asked for after each error,
// with whether attempts have failed since before this call.
func (b *Book) Try(ctx context.Context, partition string, stop <-chan struct{}, attempt func() (worked bool, err error), verdict func(err error, failing bool) Verdict) error {
	failing, err := b.wait(ctx, partition, stop)
	if err != nil {
		return err
	}
	pause, since := firstPause, time.Now()
	if failing {
		pause = longestPause
	}
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		worked, err := attempt()
		if worked {
			b.clear(partition)
			failing, pause, since = false, firstPause, time.Now()
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		switch v := verdict(err, failing); {
		case v == Over:
			return err
		case v == GiveUp || time.Since(since) > Away:
			b.add(partition)
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-stop:
			return nil // the last attempt has ended: there is nothing to finish
		case <-time.After(pause):
			pause = min(2*pause, longestPause)
		}
	}
}

// wait waits for the end of the pause of a partition, or until stop is closed. It tells
// whether there was a setback since the partition was last consumed. Its error is that of
// ctx.
func (b *Book) wait(ctx context.Context, partition string, stop <-chan struct{}) (failing bool, err error) {
	b.mu.Lock()
	last, failing := b.all[partition]
	b.mu.Unlock()
	if !failing {
		return false, nil
	}
	select {
	case <-time.After(time.Until(last.next)):
	case <-stop:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return true, err
}
