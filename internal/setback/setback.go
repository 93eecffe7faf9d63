// Package setback paces the attempts of a source to consume partitions that failed. The
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

// A Book has the setbacks of the partitions of one source. Its zero value is ready.
type Book struct {
	mu  sync.Mutex
	all map[string]entry // by partition
}

type entry struct {
	times int       // in a row
	next  time.Time // no attempt before
}

// Add records that the partition could not be consumed.
func (b *Book) Add(partition string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[string]entry{}
	}
	n := b.all[partition].times
	b.all[partition] = entry{n + 1, time.Now().Add(min(first<<min(n, 10), longest))}
}

// Clear records that the partition was consumed.
func (b *Book) Clear(partition string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, partition)
}

// Wait waits for the end of the pause of a partition, or until stop is closed. It tells
// whether there was a setback since the partition was last consumed. Its error is that of
// ctx.
func (b *Book) Wait(ctx context.Context, partition string, stop <-chan struct{}) (failing bool, err error) {
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
