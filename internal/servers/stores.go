package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// NATS runs one server with JetStream that syncs every write to disk.
func NATS(ctx context.Context, bin string) (*Server, error) {
	bin, err := FindNATS(bin)
	if err != nil {
		return nil, err
	}
	return launch(ctx, "nats", 2, func(s *Server) error {
		if err := s.nats(bin, 1, ""); err != nil {
			return err
		}
		s.answers, s.fit = s.fit, nil
		return nil
	})
}

// NATSCluster runs n servers as one cluster and returns once it has a leader.
// Each can be stopped, killed, frozen by itself; see [Server.Ready].
func NATSCluster(ctx context.Context, bin string, n int) ([]*Server, error) {
	return (*Net)(nil).NATSCluster(ctx, bin, n)
}

// NATSCluster is a cluster whose servers have networks of their own.
func (x *Net) NATSCluster(ctx context.Context, bin string, n int) ([]*Server, error) {
	bin, err := FindNATS(bin)
	if err != nil {
		return nil, err
	}
	var nodes []*Server
	for k := range n {
		// How they are run takes the ports of all, so it follows below.
		s, err := create("nats", 3, func(*Server) error { return nil })
		if err != nil {
			return nil, errors.Join(err, CloseAll(nodes))
		}
		x.house(s, k)
		nodes = append(nodes, s)
	}
	var routes []string
	for _, s := range nodes {
		routes = append(routes, "nats://"+s.ports[2].addr())
	}
	for i, s := range nodes {
		cluster := fmt.Sprintf("cluster { name: rota, listen: %q, routes: [ %s ] }\n", s.ports[2].addr(), strings.Join(routes, ", "))
		err := s.nats(bin, i+1, cluster)
		if err == nil {
			err = s.Start(ctx)
		}
		if err != nil {
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

// CloseAll closes every one of them.
func CloseAll(all []*Server) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// nats fills in how the i-th server of a cluster is run.
func (s *Server) nats(bin string, i int, cluster string) error {
	s.url = "nats://" + s.addr
	cfg, err := s.conf("nats.conf", fmt.Sprintf(`server_name: n%d
listen: %q
http: %q
jetstream { store_dir: %q, sync_interval: always }
%s`, i, s.addr, s.ports[1].addr(), s.data(), cluster))
	if err != nil {
		return err
	}
	s.commands = []command{{path: bin, args: []string{"-c", cfg}}}
	health := "http://" + s.ports[1].addr() + "/healthz"
	s.answers = func(ctx context.Context) error { return get(ctx, health+"?js-enabled-only=true") }
	s.fit = func(ctx context.Context) error { return get(ctx, health) }
	return nil
}
