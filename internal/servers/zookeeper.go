package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// ZooKeeper runs one server that is alone, with these options of java besides its own,
// such as -Djute.maxbuffer=4096.
func ZooKeeper(ctx context.Context, options ...string) (*Server, error) {
	classes, err := FindZooKeeper()
	if err != nil {
		return nil, err
	}
	return launch(ctx, "zookeeper", 1, func(s *Server) error {
		if err := s.zooKeeper(classes, "clientPortAddress=127.0.0.1\nclientPort="+s.ports[0].String()+"\n"); err != nil {
			return err
		}
		s.answers, s.fit = s.fit, nil
		s.commands[0].args = append(slices.Clone(options), s.commands[0].args...)
		return nil
	})
}

// ZooKeeperTLS runs one server that clients reach by TLS only. pair is a PEM file with
// its certificate and its key; clients show a certificate of the authority. Its
// four-letter words have a port without TLS.
func ZooKeeperTLS(ctx context.Context, pair, authority string) (*Server, error) {
	classes, err := FindZooKeeper()
	if err != nil {
		return nil, err
	}
	classes += ":/usr/share/java/netty-codec.jar" // which Debian's package depends on and does not name
	return launch(ctx, "zookeeper", 2, func(s *Server) error {
		words := s.ports[1].addr()
		err := s.zooKeeper(classes, fmt.Sprintf(`clientPortAddress=127.0.0.1
clientPort=%s
secureClientPortAddress=127.0.0.1
secureClientPort=%s
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.type=PEM
ssl.keyStore.location=%s
ssl.trustStore.type=PEM
ssl.trustStore.location=%s
ssl.clientAuth=need
`, s.ports[1], s.ports[0], pair, authority))
		s.answers, s.fit = func(ctx context.Context) error { return serves(ctx, words) }, nil
		s.url = "zks://" + s.addr
		return err
	})
}

// ZooKeeperCluster runs n servers as one ensemble and returns once it has a leader. Each
// can be stopped, killed, frozen by itself; see [Server.Ready].
func ZooKeeperCluster(ctx context.Context, n int) ([]*Server, error) {
	return (*Net)(nil).ZooKeeperCluster(ctx, n)
}

// ZooKeeperCluster is an ensemble whose servers have networks of their own.
func (x *Net) ZooKeeperCluster(ctx context.Context, n int) ([]*Server, error) {
	classes, err := FindZooKeeper()
	if err != nil {
		return nil, err
	}
	var nodes []*Server
	for k := range n {
		// The configuration names the ports of all, so it follows below.
		s, err := create("zookeeper", 3, func(*Server) error { return nil })
		if err != nil {
			return nil, errors.Join(err, CloseAll(nodes))
		}
		x.house(s, k)
		nodes = append(nodes, s)
	}
	var list strings.Builder
	for i, s := range nodes {
		fmt.Fprintf(&list, "server.%d=%s:%s:participant;%s\n", i+1, s.ports[1].addr(), s.ports[2], s.addr)
	}
	limits := "initLimit=20\nsyncLimit=4\nstandaloneEnabled=false\n"
	if x != nil {
		// A leader that is heard and does not hear may be elected again. Its followers wait so
		// long until they take another.
		limits += "connectToLearnerMasterLimit=4\n"
	}
	for i, s := range nodes {
		err := s.zooKeeper(classes, limits+list.String())
		if err == nil {
			err = os.WriteFile(filepath.Join(s.data(), "myid"), fmt.Append(nil, i+1, "\n"), 0o644)
		}
		if err != nil {
			return nil, errors.Join(err, CloseAll(nodes))
		}
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, s := range nodes { // at the same time: those that come late are waited for longer and longer
		wg.Go(func() {
			if errs[i] = s.Start(ctx); errs[i] == nil {
				errs[i] = s.Ready(ctx)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, CloseAll(nodes))
	}
	return nodes, nil
}

// zooKeeper fills in how a server is run. ports are the lines of its configuration that
// say where it listens.
func (s *Server) zooKeeper(classes, ports string) error {
	s.url = "zk://" + s.addr
	cfg, err := s.conf("zoo.cfg", fmt.Sprintf(`tickTime=500
dataDir=%s
admin.enableServer=false
maxClientCnxns=0
clientPortListenBacklog=1024
4lw.commands.whitelist=*
%s`, s.data(), ports))
	if err != nil {
		return err
	}
	s.commands = []command{java(256, "-Dzookeeper.preAllocSize=1024",
		"-Dzookeeper.fastleader.maxNotificationInterval=1000", // in an election, the longest pause between two votes
		"-cp", classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", cfg)}
	// One of an ensemble answers before it has found the others.
	s.answers = func(ctx context.Context) error { return ask(ctx, s.addr, "ruok", wantText("imok")) }
	s.fit = func(ctx context.Context) error { return serves(ctx, s.addr) }
	return nil
}

// serves asks a server for its mode. ruok is answered before sessions work.
func serves(ctx context.Context, addr string) error { return ask(ctx, addr, "srvr", wantText("Mode:")) }

// wantText is a check for an answer that contains a text.
func wantText(want string) func(*bufio.Reader) error {
	return func(r *bufio.Reader) error {
		text, err := io.ReadAll(r)
		if err == nil && !strings.Contains(string(text), want) {
			err = fmt.Errorf("it answers %q", text)
		}
		return err
	}
}
