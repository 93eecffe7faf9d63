package rotakafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Timeouts of requests.
const (
	dialTime   = 3 * time.Second
	answerTime = 5 * time.Second  // for a request that is on the wire
	callTime   = 10 * time.Second // for a call whose ctx has no deadline
)

// A link has the clients of a source. Kafka processes the requests of one connection one
// after the other, and a fetch that waits for messages keeps the next request waiting. So
// there are two clients for fetches, the lanes, and others for requests that are answered at
// once, the desks. Partitions share all but one of them, which is for everything else: a broker
// collects commits for some milliseconds before it writes them, and by a single connection it
// would do so for one after the other of those that move at the same time.
type link struct {
	set *settings
	bad error // the settings are wrong; every call returns it

	mu     sync.Mutex
	closed bool
	warned bool // of what the settings expose
	desks  [mostDesks + 1]*kgo.Client
	lanes  [2]*kgo.Client // by quick and parked
}

var errClosed = errors.New("rotakafka: closed")

// mostDesks is how many partitions can commit at the same time. A desk is a connection to each
// broker that it has to do with, once it is used.
const mostDesks = 4

// front is the desk of what is no partition's.
const front = mostDesks

// deskOf is the desk of a partition.
func deskOf(number int32) int { return int(number) % mostDesks }

// client returns the client of a desk.
func (l *link) client(desk int) (*kgo.Client, error) { return l.open(&l.desks[desk]) }

// lane returns the client of a lane.
func (l *link) lane(i int) (*kgo.Client, error) { return l.open(&l.lanes[i]) }

// open returns a client, and makes it if there is none. It does not connect.
func (l *link) open(c **kgo.Client) (*kgo.Client, error) {
	if l.bad != nil {
		return nil, permanent{l.bad}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if *c != nil {
		return *c, nil
	}
	if err := l.set.Readable(); err != nil {
		return nil, permanent{fmt.Errorf("rotakafka: %v: %w", l.set, err)}
	}
	if !l.warned {
		l.warned = true
		l.set.WarnExposed()
		if l.set.sasl == saslPlain && !l.set.Secure {
			l.set.Log.Warn("sasl=plain without TLS sends the password as it is: write kafka+ssl://", "server", l.set.String())
		}
	}
	made, err := kgo.NewClient(l.set.options()...)
	if err != nil {
		return nil, permanent{fmt.Errorf("rotakafka: %v: %w", l.set, err)}
	}
	*c = made
	return made, nil
}

func (l *link) close() {
	l.mu.Lock()
	clients := append(l.desks[:], l.lanes[:]...)
	l.closed = true
	l.mu.Unlock()
	for _, c := range clients {
		if c != nil {
			c.Close()
		}
	}
}

// options are those of every client. Requests are retried a few times only, since Consume
// retries with back-off of its own.
func (s *settings) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.Servers...), kgo.ClientID(s.name), kgo.SoftwareNameAndVersion("rota", "0"), kgo.DisableClientMetrics(),
		kgo.WithLogger(logger{s.Log}), kgo.MaxVersions(versions()), kgo.Dialer(s.connect), kgo.DialTimeout(dialTime),
		kgo.RequestTimeoutOverhead(answerTime), kgo.RequestRetries(3), kgo.RetryTimeout(answerTime),
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(20*time.Millisecond<<min(n, 6), 500*time.Millisecond) }),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.ConnIdleTimeout(5 * time.Minute), kgo.BrokerMaxReadBytes(512 << 20),
		kgo.ProducerBatchMaxBytes(mostLetter), kgo.RecordDeliveryTimeout(answerTime), kgo.ProducerLinger(0), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if m := s.mechanism(); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts
}

// versions are the highest versions of requests that we use. From EndTxn 5 on, the broker
// counts up the epoch of a producer with every transaction: then the epoch would not tell a
// new owner from an old transaction. And requests from certain versions on have the ids of
// topics in place of names.
func versions() *kversion.Versions {
	v := kversion.Stable()
	for key, most := range map[kmsg.Key]int16{kmsg.InitProducerID: 5, kmsg.AddOffsetsToTxn: 4, kmsg.TxnOffsetCommit: 4, kmsg.EndTxn: 4, kmsg.OffsetCommit: 9, kmsg.OffsetFetch: 9} {
		v.SetMaxKeyVersion(int16(key), most)
	}
	return v
}

// connect opens a connection. Certificates are read each time, since they are replaced
// while members run.
func (s *settings) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	dial := s.dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if err != nil || !s.Secure {
		return conn, err
	}
	config, err := s.TLSConfig()
	if err != nil {
		conn.Close()
		return nil, err
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// mechanism signs in. The password is read for every connection.
func (s *settings) mechanism() sasl.Mechanism {
	password := func() (string, error) {
		p, err := s.ReadPassword()
		return string(p), err
	}
	salted := func(context.Context) (scram.Auth, error) {
		p, err := password()
		return scram.Auth{User: s.User, Pass: p}, err
	}
	switch s.sasl {
	case saslPlain:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			p, err := password()
			return plain.Auth{User: s.User, Pass: p}, err
		})
	case scram256:
		return scram.Sha256(salted)
	case scram512:
		return scram.Sha512(salted)
	}
	return nil
}

// within adds callTime as a timeout to a ctx without a deadline.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ends := ctx.Deadline(); ends {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTime)
}

// ask sends a request to the broker that is in charge of it, and returns the answer.
func ask[R kmsg.Response](ctx context.Context, l *link, desk int, request kmsg.Request) (answer R, err error) {
	c, err := l.client(desk)
	if err != nil {
		return answer, err
	}
	ctx, cancel := within(ctx)
	defer cancel()
	got, err := c.Request(ctx, request)
	if err != nil {
		return answer, fmt.Errorf("rotakafka: %v: %w", l.set, l.set.inWords(err))
	}
	answer, ok := got.(R)
	if !ok {
		return answer, fmt.Errorf("rotakafka: %v: the answer to %s is a %T", l.set, kmsg.NameForKey(request.Key()), got)
	}
	return answer, nil
}

// inWords also words what brokers do that refuse a sign-in without an answer.
func (s *settings) inWords(err error) error {
	if s.sasl != "" && errors.Is(err, io.EOF) {
		return fmt.Errorf("the broker closed the connection: perhaps it refuses this user or password (%w)", err)
	}
	return inWords(err)
}

// code is the error of an error code in an answer, nil for none.
func code(c int16) error { return inWords(kerr.ErrorForCode(c)) }

// logger passes the client's log lines on. What it calls an error is often an outage that
// rota reports by itself, so all of them are for debugging.
type logger struct{ log *slog.Logger }

func (l logger) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelNone
}

func (l logger) Log(_ kgo.LogLevel, msg string, pairs ...any) { l.log.Debug(msg, pairs...) }
