//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rota-dev/rota/internal/clock"
	"github.com/rota-dev/rota/internal/line"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A member consumes with a goroutine per partition and marks what it has handled;
// marks are committed every 5 s, as is franz-go's default, and before a partition
// is given up.
type member struct {
	*journal
	s    *settings
	work time.Duration
	mu   sync.Mutex
	runs map[int32]*consumption
	cl   *kgo.Client
}

// A consumption is one ownership of one partition.
type consumption struct {
	partition int32
	token     uint64
	in        chan []*kgo.Record
	stop      chan struct{}
	done      chan struct{}
}

func (s *settings) member() error {
	work, err := time.ParseDuration(strings.TrimPrefix(s.handle, "sleep:"))
	if err != nil {
		return fmt.Errorf("--handle %q: want sleep:TIME", s.handle)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if s.tether {
		var cut context.CancelFunc
		ctx, cut = context.WithCancel(ctx)
		go func() {
			io.Copy(io.Discard, os.Stdin)
			cut()
			time.Sleep(10 * time.Second)
			os.Exit(4)
		}()
	}
	j, err := openJournal(s)
	if err != nil {
		return err
	}
	defer j.Close()
	m := &member{journal: j, s: s, work: work, runs: map[int32]*consumption{}}
	if !waitFor(ctx, s.gate) {
		return nil
	}
	if m.cl, err = kgo.NewClient(m.options()...); err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := m.cl.PollFetches(ctx)
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			m.mu.Lock()
			c := m.runs[p.Partition]
			m.mu.Unlock()
			if c != nil && len(p.Records) > 0 {
				select {
				case c.in <- p.Records:
				case <-c.stop:
				}
			}
		})
	}
	m.cl.Close() // leaves; what is assigned is revoked first
	return nil
}

func waitFor(ctx context.Context, file string) bool {
	for file != "" && ctx.Err() == nil {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	return ctx.Err() == nil
}

func (m *member) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(m.s.server), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(m.s.group),
		kgo.SessionTimeout(m.s.lease), kgo.HeartbeatInterval(m.s.heartbeat), kgo.RebalanceTimeout(m.s.lease),
		kgo.AutoCommitMarks(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(20 * time.Millisecond), kgo.FetchMinBytes(1),
		kgo.OnPartitionsAssigned(m.assigned), kgo.OnPartitionsRevoked(m.revoked), kgo.OnPartitionsLost(m.lost),
		kgo.WithHooks(&pulse{m: m}),
	}
	if m.s.protocol == "kip848" {
		return append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	return append(opts, kgo.Balancers(&telling{kgo.CooperativeStickyBalancer(), m}))
}

func (m *member) event(event string, c *consumption, message string) {
	m.add(line.Line{Event: event, Partition: "bench." + strconv.Itoa(int(c.partition)), Token: c.token, Message: message})
}

func (m *member) assigned(_ context.Context, _ *kgo.Client, all map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range all[topic] {
		c := &consumption{p, uint64(int64(clock.Boot())), make(chan []*kgo.Record, 1024), make(chan struct{}), make(chan struct{})}
		m.runs[p] = c
		m.event("grant", c, "")
		m.event("start", c, "")
		go m.consume(c)
	}
}

// consume handles what comes, one at a time.
func (m *member) consume(c *consumption) {
	defer close(c.done)
	for {
		select {
		case <-c.stop:
			return
		case records := <-c.in:
			for _, r := range records {
				select {
				case <-c.stop:
					return
				default:
				}
				id := strconv.FormatInt(r.Offset, 10)
				m.event("handle", c, id)
				time.Sleep(m.work)
				m.event("handled", c, id)
				m.cl.MarkCommitRecords(r)
			}
		}
	}
}

// halt stops partitions: the message in hand is finished, no other begun.
func (m *member) halt(all []int32) {
	var ending []*consumption
	m.mu.Lock()
	for _, p := range all {
		if c := m.runs[p]; c != nil {
			delete(m.runs, p)
			close(c.stop)
			ending = append(ending, c)
		}
	}
	m.mu.Unlock()
	for _, c := range ending {
		<-c.done
		m.event("stopped", c, "")
	}
}

func (m *member) revoked(ctx context.Context, cl *kgo.Client, all map[string][]int32) {
	m.halt(all[topic])
	if err := cl.CommitMarkedOffsets(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "commit:", err)
	}
}

func (m *member) lost(_ context.Context, _ *kgo.Client, all map[string][]int32) { m.halt(all[topic]) }

// pulse sees what renews a session at the broker: heartbeats of both protocols,
// and of the classic one also joins, syncs and commits.
type pulse struct {
	m      *member
	mu     sync.Mutex
	sent   map[int16]int64
	joined bool
}

func (p *pulse) renews(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.Heartbeat, kmsg.ConsumerGroupHeartbeat:
		return true
	case kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetCommit:
		return p.m.s.protocol == "classic"
	}
	return false
}

func (p *pulse) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err != nil || !p.renews(key) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent == nil {
		p.sent = map[int16]int64{}
	}
	p.sent[key] = int64(clock.Boot())
}

func (p *pulse) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err != nil || !p.renews(key) {
		return
	}
	p.mu.Lock()
	sent, first := p.sent[key], !p.joined
	p.joined = true
	p.mu.Unlock()
	if first { // the broker has given it an id: the group can see it
		p.m.add(line.Line{Event: "joined", PID: os.Getpid(), BootID: clock.BootID()})
	}
	if kmsg.Key(key) == kmsg.JoinGroup {
		sent = int64(clock.Boot()) // answered when all have joined, and counted from then
	}
	p.m.add(line.Line{Event: "lease", Lease: sent + int64(p.m.s.lease)})
}

// telling says when this member, leading a classic group, makes a plan.
type telling struct {
	kgo.GroupBalancer
	m *member
}

func (t *telling) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	t.m.add(line.Line{Event: "leader"})
	t.m.add(line.Line{Event: "plan"})
	return t.GroupBalancer.MemberBalancer(members)
}
