package rotarabbit_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	neturl "net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotarabbit"
	"github.com/rota-dev/rota/internal/certs"
	"github.com/rota-dev/rota/rotatest"
)

// TestS0_13c_MembersGoToAnotherEndpoint runs a cluster of three nodes with TLS, and quorum
// queues that all nodes have. Under load the node is killed that members are connected to, and
// in every second round one that only leads queues, if there is one.
func TestS0_13c_MembersGoToAnotherEndpoint(t *testing.T) {
	t.Parallel()
	rotatest.Source(t, func(t *testing.T) rotatest.Broker { return newCluster(t) }, rotatest.WithFailovers())
}

// A cluster is three nodes with a broker's queues.
type cluster struct {
	t       *testing.T
	nodes   []*rotatest.RealServer
	ca      string
	admin   admin
	prefix  string
	names   []string
	sources int
	send    map[string]publisher // by partition
}

type publisher interface {
	rota.Source
	Publish(ctx context.Context, partition string, values ...[]byte) error
}

const prefetch = 50

func newCluster(t *testing.T) *cluster {
	ca := certs.New(t)
	cert, key := ca.Issue("server", 2*time.Hour)
	c := &cluster{t: t, ca: ca.File, prefix: "q" + rand.Text()[:8], send: map[string]publisher{}}
	c.nodes = rotatest.StartRabbitMQCluster(t, rotatest.RabbitSetup{CA: ca.File, Cert: cert, Key: key}, 3)
	c.admin = newSecureAdmin(t, c.nodes[0], ca.File)
	for i := range 3 {
		p := fmt.Sprintf("%s.%d", c.prefix, i)
		c.names = append(c.names, p)
		c.send[p] = c.Source().(publisher)
	}
	return c
}

// Source knows all nodes. The first is another one for each.
func (c *cluster) Source() rota.Source {
	var servers []string
	for i := range c.nodes {
		servers = append(servers, c.nodes[(c.sources+i)%len(c.nodes)].Addr())
	}
	c.sources++
	s := rotarabbit.Source(fmt.Sprintf("amqps://%s?queues=%s.{0..2}&declare=quorum&prefetch=%d&dead=%[2]s.dead&ca=%[4]s",
		strings.Join(servers, ","), c.prefix, prefetch, neturl.QueryEscape(c.ca)))
	c.t.Cleanup(func() { s.(io.Closer).Close() })
	return s
}

func (c *cluster) Partitions() []string { return c.names }

func (c *cluster) Unsettled() int { return prefetch }

func (c *cluster) Send(ctx context.Context, partition string, value []byte) error {
	return c.send[partition].Publish(ctx, partition, value)
}

func (c *cluster) Publish(partition string, values ...[]byte) error {
	return c.send[partition].Publish(context.Background(), partition, values...)
}

func (c *cluster) Dead() (out [][]byte, err error) {
	for l, err := range c.send[c.names[0]].(rota.DeadLetters).Letters(context.Background(), "") {
		if err != nil {
			return nil, err
		}
		out = append(out, l.Message.Value)
	}
	return out, nil
}

// Serving returns the node that serves the most members, or in every second round one that
// leads queues and serves none.
func (c *cluster) Serving(ctx context.Context, round int) (rotatest.Endpoint, error) {
	serves, leads := map[string]int{}, map[string]int{}
	eventually(c.t, "each queue has a leader and a consumer", func() (err error) {
		serves, leads, err = c.roles()
		return err
	})
	most := func(m map[string]int) string {
		return slices.MaxFunc(slices.Sorted(maps.Keys(m)), func(a, b string) int { return cmp.Compare(m[a], m[b]) })
	}
	name := most(serves)
	if only := maps.Clone(leads); round%2 == 1 {
		maps.DeleteFunc(only, func(node string, _ int) bool { return serves[node] > 0 })
		if len(only) > 0 {
			name = most(only)
		}
	}
	for i, n := range c.nodes {
		if rotatest.RabbitNode(i+1) == name {
			says := fmt.Sprintf("%s, which served %d consumers and led %d queues,", name, serves[name], leads[name])
			return rotatest.Endpoint{Name: says, Kill: n.Kill, Back: func(ctx context.Context) error { return c.back(ctx, n) }}, nil
		}
	}
	return rotatest.Endpoint{}, fmt.Errorf("there is no node %s", name)
}

// back starts a node. The next one may be killed when each queue is whole.
func (c *cluster) back(ctx context.Context, killed *rotatest.RealServer) error {
	err := killed.Start(ctx)
	for _, n := range c.nodes {
		if err == nil {
			err = n.Ready(ctx)
		}
	}
	return err
}

// roles counts the consumers and the leaders of each node.
func (c *cluster) roles() (serves, leads map[string]int, err error) {
	var queues []struct {
		Name, Node string
	}
	var consumers []struct {
		Queue   struct{ Name string }
		Channel struct{ Node string } `json:"channel_details"`
	}
	serves, leads = map[string]int{}, map[string]int{}
	body, err := c.admin.try("GET", "/api/queues/%2F?columns=name,node", nil)
	if err == nil {
		err = json.Unmarshal(body, &queues)
	}
	if err == nil {
		body, err = c.admin.try("GET", "/api/consumers/%2F", nil)
	}
	if err == nil {
		err = json.Unmarshal(body, &consumers)
	}
	for _, q := range queues {
		if slices.Contains(c.names, q.Name) {
			leads[q.Node]++
		}
	}
	for _, x := range consumers {
		serves[x.Channel.Node]++
	}
	if err == nil && (len(consumers) != len(c.names) || len(queues) < len(c.names) || serves[""]+leads[""] > 0) {
		err = errors.New(string(body))
	}
	return serves, leads, err
}
