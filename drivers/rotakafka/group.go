package rotakafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rota-dev/rota"
)

// Offsets are kept under the name of the rota group, as those of a Kafka group without
// members.

// Bind tells the source its group.
func (s *source) Bind(group string) error {
	if s.group.CompareAndSwap(nil, &group) {
		return nil
	}
	if bound := *s.group.Load(); bound != group {
		return fmt.Errorf("rotakafka: this source reads for group %s and cannot read for group %s too: make another Source for %[2]s", bound, group)
	}
	return nil
}

// Open implements rota.Opener: all desks connect to the coordinator of the group, by a question
// whose answer does not matter, and fetches to the brokers that lead partitions.
func (s *source) Open(ctx context.Context) error {
	group, err := s.groupName()
	if err != nil {
		return err
	}
	var (
		all    sync.WaitGroup
		failed [mostDesks + 1]error
	)
	for desk := range failed {
		all.Go(func() {
			r := kmsg.NewPtrOffsetFetchRequest()
			r.Group, r.Topics = group, []kmsg.OffsetFetchRequestTopic{}
			_, failed[desk] = ask[*kmsg.OffsetFetchResponse](ctx, &s.link, desk, r)
		})
	}
	for _, name := range s.set.topics {
		t, err := s.topic(ctx, name, time.Time{})
		if err != nil {
			break // the desks tell, too
		}
		for _, leader := range slices.Compact(slices.Sorted(slices.Values(t.leaders))) {
			if leader >= 0 { // it has one
				all.Go(func() {
					s.fetcher.warm(leader)
					s.fetcher.peek(ctx, leader, nil)
				})
			}
		}
	}
	all.Wait()
	return errors.Join(failed[:]...)
}

// errUnbound means that a member consumes from a source that was never bound.
var errUnbound = errors.New("rotakafka: this source does not know its group: a Source that wraps it must forward Bind, see rota.Binder")

// groupName is the name of the group, which is that of its Kafka group too.
func (s *source) groupName() (string, error) {
	if g := s.group.Load(); g != nil {
		return *g, nil
	}
	return "", errUnbound
}

// An offset is one that is committed, or none if it is negative.
type offset struct {
	at    int64
	note  note
	noted bool  // the note is ours
	err   error // why it is not known
}

// endedBefore tells whether the owner just before a token has committed the offset as its last.
func (o offset) endedBefore(token rota.Token) bool {
	return o.noted && o.note.last && o.note.token+1 == token
}

// offsets reads the committed offsets of a group. It waits until transactions of former
// owners have ended.
func (s *source) offsets(ctx context.Context, desk int, group string, of map[string][]int32) (out map[string]offset, err error) {
	err = again(ctx, func() (err error) { out, err = s.offsetsNow(ctx, desk, group, of); return err })
	if err != nil {
		return nil, fmt.Errorf("rotakafka: offsets of Kafka group %s: %w", group, err)
	}
	return out, nil
}

// offsetsNow reads them, and fails while there are such transactions.
func (s *source) offsetsNow(ctx context.Context, desk int, group string, of map[string][]int32) (map[string]offset, error) {
	out, err := s.readOffsets(ctx, desk, group, of, true)
	for _, o := range out {
		err = cmp.Or(err, o.err)
	}
	return out, err
}

// readOffsets reads offsets. While a transaction is open in which one may change, either that one is
// an error, or it is as it was before.
func (s *source) readOffsets(ctx context.Context, desk int, group string, of map[string][]int32, stable bool) (map[string]offset, error) {
	r := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup() // for brokers that know requests of several groups
	r.RequireStable, r.Group, g.Group = stable, group, group
	for name, numbers := range of {
		t, gt := kmsg.NewOffsetFetchRequestTopic(), kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions, gt.Topic, gt.Partitions = name, numbers, name, numbers
		r.Topics, g.Topics = append(r.Topics, t), append(g.Topics, gt)
	}
	r.Groups = append(r.Groups, g)
	got, err := s.askCoordinator(ctx, desk, group, r)
	if err != nil {
		return nil, err
	}
	out := map[string]offset{}
	add := func(topic string, number int32, at int64, metadata *string, c int16) {
		o := offset{at: at, err: code(c)}
		if metadata != nil {
			o.note, o.noted = readNote(*metadata)
		}
		out[partitionName(topic, number)] = o
	}
	failed := got.ErrorCode
	for _, t := range got.Topics {
		for _, p := range t.Partitions {
			add(t.Topic, p.Partition, p.Offset, p.Metadata, p.ErrorCode)
		}
	}
	for _, g := range got.Groups {
		failed = cmp.Or(failed, g.ErrorCode)
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, p.Partition, p.Offset, p.Metadata, p.ErrorCode)
			}
		}
	}
	err = kerr.ErrorForCode(failed)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return out, nil // nobody has committed anything yet
	}
	if err != nil {
		return nil, inWords(err)
	}
	return out, nil
}

// askCoordinator asks the broker that coordinates the group. The client would do so by itself, but asks
// for the metadata of topics with each such request, which costs a broker more than the answer.
func (s *source) askCoordinator(ctx context.Context, desk int, group string, r *kmsg.OffsetFetchRequest) (*kmsg.OffsetFetchResponse, error) {
	if node := s.coordinators.of(group); node >= 0 {
		got, err := s.askBroker(ctx, desk, node, r)
		if err == nil {
			return got, nil
		}
		s.coordinators.set(group, -1)
	}
	got, err := ask[*kmsg.OffsetFetchResponse](ctx, &s.link, desk, r)
	if err == nil {
		s.findCoordinator(ctx, desk, group)
	}
	return got, err
}

// knownTime is how long a broker may take for an answer that was a coordinator: if it is one no more, or
// frozen, the client finds another.
const knownTime = time.Second

// askBroker asks a broker. That it does not coordinate the group any more is an error.
func (s *source) askBroker(ctx context.Context, desk int, node int32, r *kmsg.OffsetFetchRequest) (*kmsg.OffsetFetchResponse, error) {
	c, err := s.client(desk)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, knownTime)
	defer cancel()
	answer, err := c.Broker(int(node)).Request(ctx, r)
	if err != nil {
		return nil, err
	}
	got := answer.(*kmsg.OffsetFetchResponse)
	failed := got.ErrorCode
	for _, g := range got.Groups {
		failed = cmp.Or(failed, g.ErrorCode)
	}
	if err := kerr.ErrorForCode(failed); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, err
	}
	return got, nil
}

// findCoordinator remembers who coordinates a group. If that cannot be had, the client finds it each time.
func (s *source) findCoordinator(ctx context.Context, desk int, group string) {
	r := kmsg.NewPtrFindCoordinatorRequest()
	r.CoordinatorKey, r.CoordinatorKeys = group, []string{group}
	got, err := ask[*kmsg.FindCoordinatorResponse](ctx, &s.link, desk, r)
	if err != nil || got.ErrorCode != 0 {
		return
	}
	node := got.NodeID
	for _, c := range got.Coordinators {
		if c.ErrorCode != 0 {
			return
		}
		node = c.NodeID
	}
	s.coordinators.set(group, node)
}

// coordinators are the brokers that coordinate groups.
type coordinators struct {
	mu  sync.Mutex
	all map[string]int32
}

// of returns the coordinator of a group, -1 if it is not known.
func (cs *coordinators) of(group string) int32 {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if node, ok := cs.all[group]; ok {
		return node
	}
	return -1
}

func (cs *coordinators) set(group string, node int32) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.all == nil {
		cs.all = map[string]int32{}
	}
	cs.all[group] = node
}

// againTime is for how long again tries: what lasts longer is reported.
const againTime = 5 * time.Second

// passing are the answers that end by themselves, as a rule soon.
var passing = []error{kerr.ConcurrentTransactions, kerr.UnstableOffsetCommit, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable}

// again calls f until its error is none that asks for that. A transaction that ends makes
// coordinators answer so for some milliseconds, and a new Kafka has no coordinator until it
// has made the topic of its groups, which it does when first asked.
func again(ctx context.Context, f func() error) error { return againFor(ctx, againTime, f) }

// againFor does so for another time.
func againFor(ctx context.Context, most time.Duration, f func() error) error {
	begun := time.Now()
	for wait := time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		err := f()
		if !slices.ContainsFunc(passing, func(e error) bool { return errors.Is(err, e) }) {
			return err
		}
		if time.Since(begun) > most {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// A foreign error means that a Kafka group has members. It has the same words for all
// partitions: then it can be told once for all.
type foreign string

func (f foreign) Error() string { return "rotakafka: " + string(f) }

// An inspection is the last answer about the members of a group.
type inspection struct {
	at  time.Time
	err error
}

// alone returns an error if a Kafka group has members, which consume the partitions too and
// commit offsets of their own. Kafka refuses plain commits then, but not those of
// transactions. An answer that is not older than fresh is used again.
func (s *source) alone(ctx context.Context, group string, fresh time.Duration) error {
	select {
	case s.inspecting <- struct{}{}:
		defer func() { <-s.inspecting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if last, ok := s.inspected[group]; ok && time.Since(last.at) < fresh {
		return last.err
	}
	began := time.Now()
	err := s.inspect(ctx, group)
	if ctx.Err() == nil {
		s.inspected[group] = inspection{began, err}
	}
	return err
}

func (s *source) inspect(ctx context.Context, group string) error {
	r := kmsg.NewPtrDescribeGroupsRequest()
	r.Groups = []string{group}
	got, err := ask[*kmsg.DescribeGroupsResponse](ctx, &s.link, front, r)
	if err != nil {
		return err
	}
	for _, g := range got.Groups {
		err := kerr.ErrorForCode(g.ErrorCode)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("rotakafka: look for members of Kafka group %s: %w", group, inWords(err))
		}
		if n := len(g.Members); n > 0 {
			return s.foreign(group, n, g.Members[0].ClientID, g.Members[0].ClientHost)
		}
		if err == nil && (g.State == "Empty" || g.State == "Dead") {
			return nil
		}
	}
	return s.inspectNew(ctx, group)
}

// inspectNew asks for a group of the new protocol (KIP-848), which the older request does
// not see. Brokers before Kafka 4.0 have answered that one by a state.
func (s *source) inspectNew(ctx context.Context, group string) error {
	r := kmsg.NewPtrConsumerGroupDescribeRequest()
	r.Groups = []string{group}
	got, err := ask[*kmsg.ConsumerGroupDescribeResponse](ctx, &s.link, front, r)
	if err != nil {
		return err
	}
	for _, g := range got.Groups {
		if n := len(g.Members); n > 0 {
			return s.foreign(group, n, g.Members[0].ClientID, g.Members[0].ClientHost)
		}
	}
	return nil
}

func (s *source) foreign(group string, n int, client, host string) error {
	what := "stop them, and rota goes on at their offsets; or give this group another name"
	if group == s.set.takeover {
		what = "stop them before takeover=" + group + " continues in their place"
	}
	return foreign(fmt.Sprintf("Kafka group %s has members of its own (%d, such as %.80q at %.80s), which consume too: %s", group, n, client, host, what))
}
