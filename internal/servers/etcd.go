package servers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// EtcdCluster runs n servers as one cluster and returns once it has a leader. Each can be
// stopped, killed, frozen by itself; see [Server.Ready]. With --cert-file among the flags
// clients need TLS.
func EtcdCluster(ctx context.Context, n int, flags ...string) ([]*Server, error) {
	return (*Net)(nil).EtcdCluster(ctx, n, flags...)
}

// EtcdCluster is a cluster whose servers have networks of their own.
func (x *Net) EtcdCluster(ctx context.Context, n int, flags ...string) ([]*Server, error) {
	bin, err := FindEtcd()
	if err != nil {
		return nil, err
	}
	var nodes []*Server
	for k := range n {
		// How they are run needs the ports of all, so it follows below.
		s, err := create("etcd", 3, func(*Server) error { return nil })
		if err != nil {
			return nil, errors.Join(err, CloseAll(nodes))
		}
		x.house(s, k)
		nodes = append(nodes, s)
	}
	var peers []string
	for i, s := range nodes {
		peers = append(peers, fmt.Sprintf("n%d=http://%s", i+1, s.ports[1].addr()))
	}
	for i, s := range nodes {
		s.etcd(bin, i+1, peers, flags)
		if err := s.Start(ctx); err != nil {
			return nil, errors.Join(err, CloseAll(nodes))
		}
	}
	for _, s := range nodes {
		if err := s.Ready(ctx); err != nil {
			return nil, errors.Join(err, CloseAll(nodes))
		}
	}
	return nodes, nil
}

// etcd fills in how the i-th node of a cluster is run. Its health is asked on a port of its
// own, which needs neither a certificate nor a password.
func (s *Server) etcd(bin string, i int, peers, flags []string) {
	s.url = "http://" + s.addr
	if slices.Contains(flags, "--cert-file") {
		s.url = "https://" + s.addr
	}
	_, peer, _ := strings.Cut(peers[i-1], "=")
	metrics := "http://" + s.ports[2].addr()
	args := []string{
		"--name", fmt.Sprint("n", i), "--data-dir", s.data(),
		"--listen-client-urls", s.url, "--advertise-client-urls", s.url,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(peers, ","),
		"--listen-metrics-urls", metrics,
		"--bcrypt-cost", "4", // signing in is not what tests wait for
	}
	healthy := func(ctx context.Context) error { return get(ctx, metrics+"/health") }
	if len(peers) == 1 {
		args = append(args, "--heartbeat-interval", "20", "--election-timeout", "200") // alone, it still waits for a vote after each start
		s.answers = healthy
	} else {
		s.answers = func(ctx context.Context) error { return get(ctx, metrics+"/metrics") } // without the others there is no health
		s.fit = healthy
	}
	s.commands = []command{{path: bin, args: append(args, flags...)}}
}
