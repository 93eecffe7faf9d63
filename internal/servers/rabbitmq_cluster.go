package servers

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// RabbitMQCluster runs n nodes as one cluster and returns once they know each other. Each can
// be stopped, killed, frozen by itself. Ready of a node returns once no quorum queue would be
// without a majority if that node were killed. The mapper is the port mapper of all nodes: they
// find each other by it, so it has to outlive each of them.
func RabbitMQCluster(ctx context.Context, set RabbitSetup, n int) (nodes []*Server, mapper *Server, err error) {
	bin, err := FindRabbitMQ()
	if err != nil {
		return nil, nil, err
	}
	mapper, err = launch(ctx, "epmd", 1, func(s *Server) error {
		s.commands = []command{epmd(s.ports[0])}
		s.answers = func(ctx context.Context) error {
			return ask(ctx, s.addr, "\x00\x01n", func(r *bufio.Reader) error { _, err := r.Peek(4); return err }) // which nodes are there?
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	cookie := rand.Text()
	for i := range n {
		// One after the other: those that start at the same time might not find each other.
		s, err := launch(ctx, "rabbitmq", 3, func(s *Server) error { return s.rabbitMember(bin, set, i+1, n, mapper.ports[0], cookie) })
		if err != nil {
			return nil, nil, errors.Join(err, CloseAll(nodes), mapper.Close())
		}
		nodes = append(nodes, s)
	}
	for _, s := range nodes {
		if err := s.Ready(ctx); err != nil {
			return nil, nil, errors.Join(err, CloseAll(nodes), mapper.Close())
		}
	}
	return nodes, mapper, nil
}

// RabbitNode is the name of the i-th node of a cluster, from 1.
func RabbitNode(i int) string { return fmt.Sprintf("n%d@localhost", i) }

// rabbitMember fills in how the i-th of n nodes is run. The first one starts alone, the others
// join it. The log of a quorum queue is in memory until it is this large.
func (s *Server) rabbitMember(bin string, set RabbitSetup, i, n int, mapper port, cookie string) error {
	lines := "cluster_partition_handling = pause_minority\nraft.wal_max_size_bytes = 4194304\n"
	if i > 1 {
		lines += fmt.Sprintf("cluster_formation.classic_config.nodes.1 = %s\ncluster_formation.classic_config.nodes.2 = %s\n", RabbitNode(1), RabbitNode(i))
	}
	if err := os.WriteFile(filepath.Join(s.Dir, ".erlang.cookie"), []byte(cookie), 0o400); err != nil {
		return err
	}
	s.fit = func(ctx context.Context) error { return set.whole(ctx, s.admin, n) }
	return s.rabbitMQ(bin, set, rabbitNode{RabbitNode(i), mapper, lines})
}

// whole asks a node whether every quorum queue would have a majority without it, and whether it
// knows all n nodes.
func (set RabbitSetup) whole(ctx context.Context, admin string, n int) error {
	if _, err := set.manage(ctx, admin, "/api/health/checks/node-is-quorum-critical"); err != nil {
		return err
	}
	body, err := set.manage(ctx, admin, "/api/nodes")
	if err != nil {
		return err
	}
	var known []struct{}
	if err := json.Unmarshal(body, &known); err != nil || len(known) != n {
		return errors.Join(err, fmt.Errorf("it knows %d nodes, want %d", len(known), n))
	}
	return nil
}

// manage asks the management API.
func (set RabbitSetup) manage(ctx context.Context, admin, path string) ([]byte, error) {
	scheme, transport := "http://", &http.Transport{DisableKeepAlives: true}
	if set.Cert != "" {
		scheme = "https://"
		var err error
		if transport.TLSClientConfig, err = set.trust(); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+admin+path, nil)
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth("guest", "guest")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %.500s", path, resp.Status, body)
	}
	return body, err
}
