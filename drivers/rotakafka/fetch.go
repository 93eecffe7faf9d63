package rotakafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A fetcher fetches the messages of all partitions that a source consumes. Each broker has
// two lanes, which are connections. A fetch of the parked lane waits for a message of any
// partition that has been quiet, and keeps its connection until one has come. Partitions
// that are new, or were busy a moment ago, are fetched by the quick lane, which never waits
// for long: so a partition that is added need not wait for a fetch that is parked.
type fetcher struct {
	link       *link
	decompress kgo.Decompressor
	ctx        context.Context
	cancel     context.CancelFunc
	loops      sync.WaitGroup

	mu    sync.Mutex
	feeds map[int32]*feed // by broker
}

// The lanes.
const (
	quick = iota
	parked
)

const (
	quickTime = 15 * time.Millisecond  // how long a fetch of the quick lane waits for messages
	parkTime  = 500 * time.Millisecond // and one of the parked lane
	warmTime  = 200 * time.Millisecond // after how long without a message a partition is quiet

	firstFetch = 64 << 10  // bytes of a partition in a fetch, until it has shown that it is fast
	mostFetch  = 256 << 20 // for a batch of messages that is larger than the limit of the URL
	mostBytes  = 16 << 20  // of all partitions in a fetch, unless one message is larger
	mostChunks = 2         // fetched of a partition and not yet delivered
)

// A feed is the fetches from one broker.
type feed struct {
	f       *fetcher
	node    int32
	cursors []*cursor // in the order in which a fetch asks for them: a broker fills its answer in this order
	changed *sync.Cond

	waiting bool // the parked lane has a fetch under way
	strays  int  // quiet partitions in the fetch of the quick lane
	merging bool // the quick lane leaves quiet partitions to the parked lane
}

// A cursor is a partition that is fetched. The fetcher's lock guards it.
type cursor struct {
	topic  string
	id     [16]byte
	number int32
	at     int64 // the offset of the next fetch
	limit  int   // bytes of the next fetch

	feed   *feed
	flying bool // in a fetch that is under way
	active time.Time
	popped time.Time
	queue  []chunk
	err    error
	ready  chan struct{} // has an element if there is something to pop
}

// A chunk is what one fetch has brought of one partition.
type chunk struct {
	records []*kgo.Record
	next    int64 // the offset behind it; there may be records that are not for us before it
}

func newFetcher(l *link) *fetcher {
	ctx, cancel := context.WithCancel(context.Background())
	return &fetcher{link: l, decompress: kgo.DefaultDecompressor(), ctx: ctx, cancel: cancel, feeds: map[int32]*feed{}}
}

// close ends all fetches and waits for them.
func (f *fetcher) close() {
	f.cancel()
	f.mu.Lock()
	for _, d := range f.feeds {
		d.changed.Broadcast()
	}
	f.mu.Unlock()
	f.loops.Wait()
}

// add begins to fetch a partition from its leader, at an offset. What it has from there on already
// need not be fetched.
func (f *fetcher) add(topic string, id [16]byte, number, leader int32, at int64, has chunk) *cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, now := f.feed(leader), time.Now()
	c := &cursor{topic: topic, id: id, number: number, at: at, limit: min(firstFetch, f.link.set.fetch), feed: d, active: now, popped: now, ready: make(chan struct{}, 1)}
	d.cursors = append(d.cursors, c)
	switch {
	case has.next > at:
		c.at, c.queue = has.next, []chunk{has}
		c.signal()
		d.changed.Broadcast()
	case f.ctx.Err() == nil:
		c.flying = true
		request := d.request([]*cursor{c}, 0)
		f.loops.Go(func() { d.first(c, request) })
	}
	return c
}

// first fetches what a new partition has, by its desk: the fetch of a lane that is under way may
// wait for messages of others, and the partition would be idle meanwhile.
func (d *feed) first(c *cursor, request *kmsg.FetchRequest) {
	list := []*cursor{c}
	answer, err := d.fetchByDesk(d.f.ctx, deskOf(c.number), request)
	brought := d.read(list, answer, err)
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	d.bring(list, brought, err)
	d.changed.Broadcast()
}

// peek fetches what partitions have, without waiting, for cursors that nobody has added. If it
// fails it returns nothing.
func (f *fetcher) peek(ctx context.Context, leader int32, list []*cursor) map[*cursor]landed {
	f.mu.Lock()
	d := f.feed(leader)
	f.mu.Unlock()
	answer, err := d.fetchByDesk(ctx, front, d.request(list, 0))
	return d.read(list, answer, err)
}

// warm connects to a broker, so that the first fetch need not wait for that.
func (f *fetcher) warm(node int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.feed(node)
}

// feed returns the feed of a broker, and begins it if there is none.
func (f *fetcher) feed(node int32) *feed {
	d := f.feeds[node]
	if d == nil {
		d = &feed{f: f, node: node, changed: sync.NewCond(&f.mu)}
		f.feeds[node] = d
		if f.ctx.Err() == nil {
			f.loops.Go(func() { d.run(quick) })
			f.loops.Go(func() { d.run(parked) })
		}
	}
	return d
}

// remove ends the fetches of a partition. What a fetch under way brings is dropped.
func (f *fetcher) remove(c *cursor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := c.feed
	for i, other := range d.cursors {
		if other == c {
			d.cursors = append(d.cursors[:i], d.cursors[i+1:]...)
			break
		}
	}
	c.queue, c.err = nil, errClosed
}

// pop returns what was fetched first, or else the error of a fetch. Its size follows the
// speed at which messages are handled: a partition whose queue is empty again soon gets
// more at once.
func (f *fetcher) pop(c *cursor) (ch chunk, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(c.queue) == 0 {
		return ch, false, c.err
	}
	ch = c.queue[0]
	c.queue = c.queue[1:]
	now := time.Now()
	switch took := now.Sub(c.popped); {
	case took < 100*time.Millisecond:
		c.limit = max(min(2*c.limit, f.link.set.fetch), c.limit)
	case took > time.Second:
		c.limit = max(c.limit/2, min(firstFetch, f.link.set.fetch))
	}
	if len(c.queue) == mostChunks-1 { // it may be fetched again
		c.active = now
		c.feed.changed.Broadcast()
	}
	c.popped = now
	c.signal()
	return ch, true, nil
}

// signal wakes the owner if there is something to pop.
func (c *cursor) signal() {
	if len(c.queue) == 0 && c.err == nil {
		return
	}
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// run fetches in one lane until the fetcher is closed. The first fetch asks for nothing: it
// connects, and if it fails the next one tells.
func (d *feed) run(lane int) {
	d.fetch(lane, d.request(nil, 0))
	// A partition that was added meanwhile may have become quiet: then it is the other
	// lane's, which may have looked before.
	d.f.mu.Lock()
	d.changed.Broadcast()
	d.f.mu.Unlock()
	for {
		list, request := d.choose(lane)
		if list == nil {
			return
		}
		answer, err := d.fetch(lane, request)
		d.land(lane, list, answer, err)
	}
}

// choose waits until there are partitions for a lane.
func (d *feed) choose(lane int) ([]*cursor, *kmsg.FetchRequest) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	for {
		if d.f.ctx.Err() != nil {
			return nil, nil
		}
		if list, wait := d.pick(lane, time.Now()); list != nil {
			return list, d.request(list, wait)
		}
		d.changed.Wait()
	}
}

// pick returns the partitions of the next fetch of a lane, and how long it waits. While the
// parked lane waits, the quick lane polls partitions that have become quiet. The next time
// the parked lane comes round, it waits a short time only, in which the quick lane leaves
// them alone: so both are parked together after that.
func (d *feed) pick(lane int, now time.Time) (list []*cursor, wait time.Duration) {
	strays := 0
	for _, c := range d.cursors {
		if c.flying || c.err != nil || len(c.queue) >= mostChunks {
			continue
		}
		quiet := now.Sub(c.active) > warmTime
		switch {
		case lane == parked && !quiet, lane == quick && quiet && (!d.waiting || d.merging):
			continue
		case quiet:
			strays++
		}
		list = append(list, c)
	}
	if list == nil {
		return nil, 0
	}
	for _, c := range list {
		c.flying = true
	}
	if lane == quick {
		d.strays = strays
		return list, quickTime
	}
	d.waiting, d.merging = true, d.strays > 0
	if d.merging {
		return list, quickTime
	}
	return list, parkTime
}

// request asks for messages of partitions.
func (d *feed) request(list []*cursor, wait time.Duration) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.SessionEpoch = int32(wait.Milliseconds()), 1, mostBytes, -1
	if !d.f.link.set.all {
		r.IsolationLevel = 1
	}
	type key struct {
		id    [16]byte
		topic string
	}
	index := map[key]int{}
	for _, c := range list {
		i, ok := index[key{c.id, c.topic}]
		if !ok {
			i = len(r.Topics)
			index[key{c.id, c.topic}] = i
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = c.topic, c.id
			r.Topics = append(r.Topics, t)
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = c.number, c.at, int32(c.limit)
		r.Topics[i].Partitions = append(r.Topics[i].Partitions, p)
	}
	return r
}

// fetch sends a request by a lane and waits for the answer.
func (d *feed) fetch(lane int, r *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	client, err := d.f.link.lane(lane)
	return d.fetchBy(d.f.ctx, client, err, r)
}

// fetchByDesk sends one by a desk.
func (d *feed) fetchByDesk(ctx context.Context, desk int, r *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	client, err := d.f.link.client(desk)
	return d.fetchBy(ctx, client, err, r)
}

func (d *feed) fetchBy(ctx context.Context, client *kgo.Client, err error, r *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	if err != nil {
		return nil, err
	}
	wait := time.Duration(r.MaxWaitMillis) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, wait+answerTime+dialTime)
	defer cancel()
	got, err := client.Broker(int(d.node)).Request(ctx, r)
	if err != nil {
		return nil, err
	}
	answer, ok := got.(*kmsg.FetchResponse)
	if !ok {
		return nil, fmt.Errorf("the answer to a fetch is a %T", got)
	}
	return answer, code(answer.ErrorCode)
}

// land gives what a fetch of a lane has brought to the partitions.
func (d *feed) land(lane int, list []*cursor, answer *kmsg.FetchResponse, err error) {
	brought := d.read(list, answer, err)
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	d.bring(list, brought, err)
	if lane == quick {
		d.strays = 0
	} else {
		d.waiting = false
	}
	d.rotate(brought)
	d.changed.Broadcast()
}

// bring gives what a fetch has brought to the partitions, or its error. The caller holds the lock.
func (d *feed) bring(list []*cursor, brought map[*cursor]landed, err error) {
	now := time.Now()
	for _, c := range list {
		c.flying = false
		got, ok := brought[c]
		switch {
		case c.err != nil: // it was removed meanwhile
		case err != nil:
			c.err = fmt.Errorf("rotakafka: fetch messages of %s: %w", partitionName(c.topic, c.number), inWords(err))
		case !ok: // the broker tells nothing of it
		case got.err != nil:
			c.err = got.err
		case got.next > c.at:
			c.at, c.active = got.next, now
			c.queue = append(c.queue, got.chunk)
		case got.cut:
			c.limit, c.active = min(4*c.limit, mostFetch), now
		}
		c.signal()
	}
}

// rotate moves the partitions that have brought something to the end, so that a broker
// whose answer is full begins with others the next time.
func (d *feed) rotate(brought map[*cursor]landed) {
	front, back := make([]*cursor, 0, len(d.cursors)), []*cursor(nil)
	for _, c := range d.cursors {
		if got, ok := brought[c]; ok && len(got.records) > 0 {
			back = append(back, c)
		} else {
			front = append(front, c)
		}
	}
	if back != nil {
		d.cursors = append(front, back...)
	}
}

// landed is what an answer has of one partition.
type landed struct {
	chunk
	cut bool // the first batch of messages was larger than the limit, and incomplete
	err error
}

// read decodes an answer, if there is one. From version 13 on it has the ids of topics in place of names.
func (d *feed) read(list []*cursor, answer *kmsg.FetchResponse, err error) map[*cursor]landed {
	if err != nil {
		return nil
	}
	type key struct {
		id     [16]byte
		topic  string
		number int32
	}
	byKey := map[key]*cursor{}
	for _, c := range list {
		k := key{topic: c.topic, number: c.number}
		if answer.Version >= 13 {
			k = key{id: c.id, number: c.number}
		}
		byKey[k] = c
	}
	out := map[*cursor]landed{}
	for i := range answer.Topics {
		t := &answer.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			k := key{topic: t.Topic, number: p.Partition}
			if answer.Version >= 13 {
				k = key{id: t.TopicID, number: p.Partition}
			}
			if c := byKey[k]; c != nil && (p.ErrorCode != 0 || len(p.RecordBatches) > 0) {
				out[c] = d.decode(c, p)
			}
		}
	}
	return out
}

func (d *feed) decode(c *cursor, p *kmsg.FetchResponseTopicPartition) landed {
	name := partitionName(c.topic, c.number)
	if err := code(p.ErrorCode); err != nil {
		return landed{err: fmt.Errorf("rotakafka: fetch messages of %s at offset %d: %w", name, c.at, err)}
	}
	opts := kgo.ProcessFetchPartitionOpts{Offset: c.at, Topic: c.topic, Partition: c.number}
	if !d.f.link.set.all {
		opts.IsolationLevel = kgo.ReadCommitted()
	}
	got, next := kgo.ProcessFetchPartition(opts, p, d.f.decompress, nil)
	if got.Err != nil && len(got.Records) == 0 {
		return landed{err: fmt.Errorf("rotakafka: messages of %s at offset %d cannot be read: %w", name, c.at, errors.Join(errUnreadable, got.Err))}
	}
	return landed{chunk: chunk{got.Records, next}, cut: next == c.at}
}

// errUnreadable means that what a broker has sent cannot be decoded.
var errUnreadable = errors.New("wrong data")
