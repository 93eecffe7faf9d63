package rotakafka_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotakafka"
	"github.com/rota-dev/rota/rotatest"
)

// A broker is one topic of a cluster.
type broker struct {
	t     testing.TB
	url   string // of the cluster, as sources are given it
	addr  string // where tests connect to
	topic string
	names []string
	query string // more parameters of the source's URL
	admin *kgo.Client
}

// with returns a broker whose sources have more parameters in their URL.
func (b *broker) with(query string) *broker {
	other := *b
	other.query += "&" + query
	return &other
}

// newClient is a client of a cluster that publishes to the partition each record names.
func newClient(t testing.TB, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(32 << 20),
		kgo.ProducerLinger(0), kgo.MetadataMinAge(50 * time.Millisecond), kgo.UnknownTopicRetries(-1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// newBroker makes a topic with three partitions.
func newBroker(t testing.TB, addr string) *broker {
	t.Helper()
	b := &broker{t: t, url: "kafka://" + addr, addr: addr, topic: "T" + rand.Text()[:8], admin: newClient(t, addr)}
	b.create(3)
	for i := range 3 {
		b.names = append(b.names, fmt.Sprintf("%s-%d", b.topic, i))
	}
	return b
}

// create makes the topic. A topic that was deleted a moment ago may still be there.
func (b *broker) create(partitions int32) {
	b.t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		_, err = kadm.NewClient(b.admin).CreateTopic(b.t.Context(), partitions, 1, map[string]*string{"max.message.bytes": kadm.StringPtr("33554432")}, b.topic)
		if !errors.Is(err, kerr.TopicAlreadyExists) {
			break
		}
	}
	if err != nil {
		b.t.Fatal(err)
	}
	waitFor(b.t, "the topic has leaders", func() bool {
		got, err := kadm.NewClient(b.admin).ListEndOffsets(b.t.Context(), b.topic)
		return err == nil && got.Error() == nil && len(got[b.topic]) == int(partitions)
	})
}

func (b *broker) sourceURL() string { return b.url + "?topic=" + b.topic + b.query }

func (b *broker) Source() rota.Source { return b.open() }

func (b *broker) open(opts ...rotakafka.Option) rota.Source {
	s := rotakafka.Source(b.sourceURL(), opts...)
	b.t.Cleanup(func() { s.(interface{ Close() error }).Close() })
	return s
}

func (b *broker) Partitions() []string { return b.names }

// records are messages of one partition.
func (b *broker) records(partition string, values ...[]byte) (out []*kgo.Record) {
	number := slices.Index(b.names, partition)
	for _, v := range values {
		out = append(out, &kgo.Record{Topic: b.topic, Partition: int32(number), Value: v})
	}
	return out
}

func (b *broker) Publish(partition string, values ...[]byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound) // a server may be coming back
	defer cancel()
	return b.admin.ProduceSync(ctx, b.records(partition, values...)...).FirstErr()
}

// Dead reads the topic of dead letters from its beginning.
func (b *broker) Dead() (out [][]byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	of := b.topic + ".dead"
	ends, err := kadm.NewClient(b.admin).ListEndOffsets(ctx, of)
	if err != nil {
		return nil, err
	}
	end, _ := ends.Lookup(of, 0)
	if end.Err != nil || end.Offset == 0 {
		return nil, nil // there is no such topic, or nothing in it
	}
	c := newClient(b.t, b.addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{of: {0: kgo.NewOffset().AtStart()}}))
	letters := map[string][]byte{}
	for at := int64(0); at < end.Offset; {
		got := c.PollFetches(ctx)
		if err := got.Err0(); err != nil {
			return nil, err
		}
		for r := range got.RecordsAll() {
			at = r.Offset + 1
			if letters[string(r.Key)] = r.Value; r.Value == nil {
				delete(letters, string(r.Key))
			}
		}
	}
	for _, v := range letters {
		out = append(out, v)
	}
	return out, nil
}

// Addr, SourceAt and Tidy make it a rotatest.WiredBroker.
func (b *broker) Addr() string { return b.addr }

// SourceAt returns a source that dials one address, whatever the brokers say.
func (b *broker) SourceAt(addr string) rota.Source {
	return b.open(rotakafka.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}))
}

// Tidy checks that no transaction is open.
func (b *broker) Tidy() error {
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	list, err := kadm.NewClient(b.admin).ListTransactions(ctx, nil, []string{"Ongoing"})
	if err != nil {
		return err
	}
	for id := range list {
		if strings.Contains(id, b.topic) {
			return fmt.Errorf("transaction %s is open", id)
		}
	}
	return nil
}

// Largest makes it a rotatest.LargeBroker.
func (b *broker) Largest() int { return 10 << 20 }

// A fakeBroker can be made to refuse.
type fakeBroker struct {
	*broker
	cluster *kfake.Cluster
}

func newFake(t testing.TB, opts ...kfake.Opt) *fakeBroker {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &fakeBroker{newBroker(t, c.ListenAddrs()[0]), c}
}

// fault makes requests fail until end is called.
func (b *fakeBroker) fault(err *kerr.Error, keys ...kmsg.Key) (end func()) {
	return b.cluster.Fault(kfake.Fault{Keys: keys, Err: err, Count: -1}).Remove
}

func (b *fakeBroker) RefuseSettling() (allow func()) {
	return b.fault(kerr.GroupAuthorizationFailed, kmsg.TxnOffsetCommit, kmsg.OffsetCommit)
}

func (b *fakeBroker) RefuseDead() (allow func()) {
	return b.fault(kerr.TopicAuthorizationFailed, kmsg.CreateTopics)
}

// Withdraw makes it a rotatest.GuardedBroker.
func (b *fakeBroker) Withdraw() (restore func()) {
	return b.fault(kerr.TopicAuthorizationFailed, kmsg.Fetch)
}

// A topicsBroker has a topic for each partition, which can be deleted.
type topicsBroker struct{ *broker }

func newTopics(b *broker) topicsBroker {
	b.query, b.names = "&pattern="+b.topic+`\..*`, nil
	for i := range 3 {
		of := topicsBroker{b}.at(i)
		of.create(1)
		b.names = append(b.names, of.topic+"-0")
	}
	return topicsBroker{b}
}

// at is the broker of one partition.
func (b topicsBroker) at(i int) *broker {
	of := *b.broker
	of.topic, of.names = fmt.Sprintf("%s.%d", b.topic, i), []string{fmt.Sprintf("%s.%d-0", b.topic, i)}
	return &of
}

func (b topicsBroker) Source() rota.Source {
	s := rotakafka.Source(b.url + "?" + b.query[1:])
	b.t.Cleanup(func() { s.(interface{ Close() error }).Close() })
	return s
}

func (b topicsBroker) Publish(partition string, values ...[]byte) error {
	return b.at(slices.Index(b.names, partition)).Publish(partition, values...)
}

func (b topicsBroker) Dead() (all [][]byte, err error) {
	for i := range b.names {
		of, err := b.at(i).Dead()
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

func (b topicsBroker) Delete(partition string) error {
	topic := b.at(slices.Index(b.names, partition)).topic
	defer b.admin.PurgeTopicsFromClient(topic) // it would refuse the next topic of this name
	got, err := kadm.NewClient(b.admin).DeleteTopics(b.t.Context(), topic)
	return errors.Join(err, got.Error())
}

func (b topicsBroker) Create(partition string) error {
	b.at(slices.Index(b.names, partition)).create(1)
	return nil
}

// Remove and Restore make it a rotatest.ChangingBroker.
func (b topicsBroker) Remove(partition string) error  { return b.Delete(partition) }
func (b topicsBroker) Restore(partition string) error { return b.Create(partition) }

// SourceAt hides that of a broker with one topic.
func (b topicsBroker) SourceAt() {}

func TestSourceFakeTopics(t *testing.T) {
	t.Parallel()
	rotatest.Source(t, func(t *testing.T) rotatest.Broker { return newTopics(newFake(t).broker) })
}

// TestKafkaOutages has the cases that hurt the server.
func TestKafkaOutages(t *testing.T) {
	t.Parallel()
	s := rotatest.StartKafka(t)
	rotatest.Source(t, func(t *testing.T) rotatest.Broker { return newBroker(t, s.Addr()) }, rotatest.WithServer(s))
}

func TestSourceFake(t *testing.T) {
	t.Parallel()
	rotatest.Source(t, func(t *testing.T) rotatest.Broker { return newFake(t) })
}

func TestSourceFakeThreeBrokers(t *testing.T) {
	t.Parallel()
	rotatest.Source(t, func(t *testing.T) rotatest.Broker { return unwired{newFake(t, kfake.NumBrokers(3)).broker} })
}

func TestSourceFakePlainCommits(t *testing.T) {
	t.Parallel()
	rotatest.Source(t, func(t *testing.T) rotatest.Broker {
		b := newFake(t)
		b.broker = b.with("fence=none")
		return b
	})
}

// TestKafka has everything that needs a real Kafka and leaves it as it was: one serves all.
func TestKafka(t *testing.T) {
	t.Parallel()
	s := rotatest.StartKafka(t)
	t.Run("tests", func(t *testing.T) {
		t.Run("suite", func(t *testing.T) {
			t.Parallel()
			rotatest.Source(t, func(t *testing.T) rotatest.Broker { return newBroker(t, s.Addr()) })
		})
		for _, c := range bothCases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, newBroker(t, s.Addr()))
			})
		}
	})
}

// bothCases are the cases of Kafka's own that hold of the fake and of a real broker.
var bothCases = []struct {
	name string
	run  func(*testing.T, *broker)
}{
	{"the first record comes soon beside a parked fetch", firstRecordIsSoon},
	{"a former owner commits nothing", formerOwnerIsFenced},
	{"a group with members is refused by name", foreignMembers},
	{"the offsets of a group are continued", continuesGroup},
	{"a Kafka group is migrated under load", migrates},
	{"a topic that was made again begins anew", topicMadeAgain},
	{"an offset out of range goes on by the policy", outOfRange},
	{"new partitions are found", newPartitions},
	{"a partition that was added is found by every member", foundByAll},
	{"messages of aborted transactions are not delivered", abortedTransactions},
	{"a message keeps everything", keepsEverything},
	{"what a kill repeats is bounded by the window", killRepeatsWindow},
	{"each message has one result", producesOnce},
	{"a source publishes", publishes},
	{"a source publishes to what is new", publishesToNew},
}

func TestBothFake(t *testing.T) {
	t.Parallel()
	for _, c := range bothCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, newFake(t).broker)
		})
	}
}
