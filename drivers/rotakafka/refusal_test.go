package rotakafka_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotakafka"
	"github.com/rota-dev/rota/internal/certs"
)

// TestRefusalsAreToldAndEnd makes a broker refuse one thing at a time: each is told in its
// own words, and ends by itself.
func TestRefusalsAreToldAndEnd(t *testing.T) {
	t.Parallel()
	type refusal struct {
		err  *kerr.Error
		key  kmsg.Key
		says []string
		dead bool // message 1 is bad
	}
	for name, c := range map[string]refusal{
		"no right to the topic's messages":     {kerr.TopicAuthorizationFailed, kmsg.Fetch, []string{"source-failed", "no right to the topic", "TOPIC_AUTHORIZATION_FAILED"}, false},
		"no right to the topic":                {kerr.TopicAuthorizationFailed, kmsg.Metadata, []string{"partitions-unknown", "no right to the topic", "TOPIC_AUTHORIZATION_FAILED"}, false},
		"no right to read offsets":             {kerr.GroupAuthorizationFailed, kmsg.OffsetFetch, []string{"source-failed", "no right to the Kafka group"}, false},
		"no right to describe the group":       {kerr.GroupAuthorizationFailed, kmsg.DescribeGroups, []string{"source-failed", "no right to the Kafka group"}, false},
		"no right to commit":                   {kerr.GroupAuthorizationFailed, kmsg.TxnOffsetCommit, []string{"source-failed", "no right to the Kafka group", "commit offset"}, false},
		"no right to the transactional id":     {kerr.TransactionalIDAuthorizationFailed, kmsg.InitProducerID, []string{"source-failed", "no right to the transactional id", "fence=none"}, false},
		"no right to make a dead-letter topic": {kerr.TopicAuthorizationFailed, kmsg.CreateTopics, []string{"source-failed", "cannot dead-letter", "no right to the topic"}, true},
		"the coordinator is away":              {kerr.CoordinatorNotAvailable, kmsg.OffsetFetch, []string{"source-failed", "COORDINATOR_NOT_AVAILABLE"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, l := newFake(t), newLedger(t)
			p := b.names[0]
			if c.dead {
				l.fail = func(msg rota.Message) error {
					if string(msg.Value) == "1" {
						return fmt.Errorf("%w: poison", rota.ErrBad)
					}
					return nil
				}
			}
			b.publish(p, 1, 3)
			end := b.fault(c.err, c.key)
			l.member(b.with("every=50ms").open())
			l.tells(c.says...)
			end()
			want := []string{"1", "2", "3"}
			if c.dead {
				want = want[1:]
			}
			l.wait("all are handled once the cause has ended", func() bool {
				n := len(l.got[p])
				return n > 0 && string(l.got[p][n-1].Value) == "3"
			})
			waitFor(t, "the offset is committed", func() bool { return b.committed(l.group, 0) == 3 })
			if got := l.values(p); c.key != kmsg.TxnOffsetCommit && !slices.Equal(got, want) {
				t.Errorf("handled were %q, want %q", got, want)
			}
		})
	}
}

// TestMistakesAreNamed opens sources that cannot work: what Partitions says has the words,
// and is permanent where waiting does not help.
func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	ca, other := certs.New(t), certs.New(t)
	secure := func(name string, valid time.Duration) kfake.Opt {
		cert, key := ca.Issue(name, valid)
		return kfake.TLS(serverTLS(t, cert, key))
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sasl := []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "right"), kfake.Superuser("SCRAM-SHA-256", "u", "right"), kfake.Superuser("SCRAM-SHA-512", "u", "right")}
	for name, c := range map[string]struct {
		opts      []kfake.Opt
		scheme    string // and the user
		query     string
		says      string
		permanent bool
	}{
		"fine":                  {nil, "kafka://", "topic=here", "", false},
		"fine over TLS":         {[]kfake.Opt{secure("s1", time.Hour)}, "kafka+ssl://", "topic=here&ca=" + ca.File, "", false},
		"fine by PLAIN":         {sasl, "kafka://u:right@", "topic=here&sasl=plain", "", false},
		"fine by SCRAM-256":     {sasl, "kafka://u:right@", "topic=here&sasl=scram-sha-256", "", false},
		"fine by SCRAM-512":     {sasl, "kafka://u@", "topic=here&sasl=scram-sha-512&password-file=" + file, "", false},
		"no such topic":         {nil, "kafka://", "topic=there", "there is no such topic: there", true},
		"wrong password, PLAIN": {sasl, "kafka://u:" + concealed + "@", "topic=here&sasl=plain", "refuses this user or password", false},
		"wrong password, SCRAM": {sasl, "kafka://u:" + concealed + "@", "topic=here&sasl=scram-sha-512", "refuses this user or password", false},
		"no sign-in":            {sasl, "kafka://", "topic=here", "closed the connection at once", false},
		"wrong authority":       {[]kfake.Opt{secure("s2", time.Hour)}, "kafka+ssl://", "topic=here&ca=" + other.File, "an authority that is not trusted", false},
		"expired certificate":   {[]kfake.Opt{secure("s3", -time.Hour)}, "kafka+ssl://", "topic=here&ca=" + ca.File, "certificate has expired", false},
		"TLS is missing":        {[]kfake.Opt{secure("s4", time.Hour)}, "kafka://", "topic=here", "write kafka+ssl://", false},
		"TLS is too much":       {nil, "kafka+ssl://", "topic=here", "rotakafka: ", false},
		"no such file":          {nil, "kafka+ssl://", "topic=here&ca=" + file + ".not", "the file of trusted certificates", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(2, "here")}, c.opts...)...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cluster.Close)
			src := rotakafka.Source(c.scheme + cluster.ListenAddrs()[0] + "?" + c.query)
			t.Cleanup(func() { src.(interface{ Close() error }).Close() })
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			list, err := src.Partitions(ctx)
			switch {
			case c.says == "" && (err != nil || len(list) != 2):
				t.Errorf("%d partitions, %v", len(list), err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%v, want %s", err, c.says)
			case c.says != "" && errors.Is(err, rota.ErrPermanent) != c.permanent:
				t.Errorf("%v is permanent: %v", err, !c.permanent)
			}
			if text := fmt.Sprintf("%v %+v", err, src); strings.Contains(text, concealed) {
				t.Errorf("it tells its secret: %s", text)
			}
		})
	}
}

// TestNobodyThere: a host that nobody listens at is told, and is not permanent.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	src := rotakafka.Source("kafka://" + addr + "?topic=t")
	defer src.(interface{ Close() error }).Close()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	_, err = src.Partitions(ctx)
	if err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "refused") || errors.Is(err, rota.ErrPermanent) {
		t.Errorf("%v, want a refused connection to %s", err, addr)
	}
}
