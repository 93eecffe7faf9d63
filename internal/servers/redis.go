package servers

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A RedisSetup says how Redis servers are run, beyond what every test needs. The zero
// value is a server without TLS and password.
type RedisSetup struct {
	Password      string
	CA, Cert, Key string   // files: with TLS only, and clients must have a certificate of CA too
	Args          []string // further arguments of each server, which override ours
}

// Redis runs one server that writes every command to its log before it answers.
func Redis(ctx context.Context) (*Server, error) { return RedisWith(ctx, RedisSetup{}) }

// RedisWith is Redis with a setup of its own.
func RedisWith(ctx context.Context, set RedisSetup) (*Server, error) {
	bin, err := FindRedis()
	if err != nil {
		return nil, err
	}
	return launch(ctx, "redis", 1, func(s *Server) error { return s.redis(bin, set) })
}

// redis fills in how a server is run.
func (s *Server) redis(bin string, set RedisSetup, more ...string) error {
	s.url = set.scheme("redis") + "://" + s.addr
	args := []string{"--bind", s.ports[0].at(), "--protected-mode", "no", "--dir", s.data(), "--daemonize", "no",
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--shutdown-timeout", "0",
		"--repl-diskless-sync-delay", "0"} // a replica need not wait for others
	args = append(args, set.listen(s.ports[0].String())...)
	if set.Password != "" {
		args = append(args, "--requirepass", set.Password, "--masterauth", set.Password)
	}
	args = append(append(args, more...), set.Args...)
	s.commands = []command{{path: bin, args: args}}
	s.answers = func(ctx context.Context) error {
		_, err := set.ask(ctx, s.addr, "PING")
		return err
	}
	return nil
}

func (set RedisSetup) scheme(name string) string {
	if set.Cert == "" {
		return name
	}
	return strings.Replace(name, "redis", "rediss", 1)
}

func (set RedisSetup) listen(port string) []string {
	if set.Cert == "" {
		return []string{"--port", port}
	}
	return []string{"--port", "0", "--tls-port", port, "--tls-cert-file", set.Cert, "--tls-key-file", set.Key, "--tls-ca-cert-file", set.CA,
		"--tls-replication", "yes", "--tls-cluster", "yes"}
}

// ask sends a command and returns the answer, which is text of one line or of several.
func (set RedisSetup) ask(ctx context.Context, addr string, words ...string) (string, error) {
	var dial interface {
		DialContext(context.Context, string, string) (net.Conn, error)
	} = &net.Dialer{}
	if set.Cert != "" {
		pem, err := os.ReadFile(set.CA)
		if err != nil {
			return "", err
		}
		pair, err := tls.LoadX509KeyPair(set.Cert, set.Key)
		if err != nil {
			return "", err
		}
		c := &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		c.RootCAs.AppendCertsFromPEM(pem)
		dial = &tls.Dialer{Config: c}
	}
	conn, err := dial.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		conn.SetDeadline(end)
	}
	r := bufio.NewReader(conn)
	if set.Password != "" {
		if _, err := converse(conn, r, "AUTH", set.Password); err != nil {
			return "", err
		}
	}
	return converse(conn, r, words...)
}

// converse sends one command and reads a simple answer, a number or one text.
func converse(w io.Writer, r *bufio.Reader, words ...string) (string, error) {
	if _, err := io.WriteString(w, strings.Join(words, " ")+"\r\n"); err != nil {
		return "", err
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	switch {
	case strings.HasPrefix(line, "-"):
		return "", fmt.Errorf("%s: it answers %q", words[0], line)
	case !strings.HasPrefix(line, "$"):
		return line[1:], nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 {
		return "", fmt.Errorf("%s: it answers %q", words[0], line)
	}
	text := make([]byte, n+2)
	_, err = io.ReadFull(r, text)
	return strings.TrimSpace(string(text)), err
}

// RedisMaster is the name that the Sentinels of RedisSentinel know the master by.
const RedisMaster = "rota-test"

// RedisSentinel runs a master, a replica and three Sentinels, and returns once the Sentinels
// can replace the master. They do so about a second after it is gone.
func RedisSentinel(ctx context.Context, set RedisSetup) (nodes, sentinels []*Server, err error) {
	return (*Net)(nil).RedisSentinel(ctx, set)
}

// RedisSentinel has networks of their own for master and replica.
func (x *Net) RedisSentinel(ctx context.Context, set RedisSetup) (nodes, sentinels []*Server, err error) {
	bin, err := FindRedis()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, CloseAll(append(nodes, sentinels...)))
			nodes, sentinels = nil, nil
		}
	}()
	master, err := launch(ctx, "redis", 1, func(s *Server) error {
		x.house(s, 0)
		return s.redis(bin, set)
	})
	if err != nil {
		return nil, nil, err
	}
	nodes = append(nodes, master)
	replica, err := launch(ctx, "redis", 1, func(s *Server) error {
		x.house(s, 1)
		return s.redis(bin, set, "--replicaof", master.ports[0].at(), master.ports[0].String())
	})
	if err != nil {
		return nodes, nil, err
	}
	nodes = append(nodes, replica)
	// A Sentinel asks the master for its replicas once in ten seconds: the replica comes
	// first.
	if err := set.until(ctx, master, "state=online", "INFO", "replication"); err != nil {
		return nodes, nil, err
	}
	for range 3 {
		s, err := launch(ctx, "redis-sentinel", 1, func(s *Server) error {
			x.house(s, -1)
			return s.redisSentinel(bin, set, master)
		})
		if err != nil {
			return nodes, sentinels, err
		}
		sentinels = append(sentinels, s)
	}
	for _, s := range sentinels {
		if err := s.Ready(ctx); err != nil {
			return nodes, sentinels, err
		}
	}
	return nodes, sentinels, nil
}

// redisSentinel fills in how a Sentinel is run. It rewrites its configuration, which is
// therefore part of its data.
func (s *Server) redisSentinel(bin string, set RedisSetup, master *Server) error {
	s.url = set.scheme("redis+sentinel") + "://" + s.addr + "/" + RedisMaster
	conf := fmt.Sprintf("sentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 3000\n",
		RedisMaster, master.ports[0].at(), master.ports[0])
	if set.Password != "" {
		conf += fmt.Sprintf("sentinel auth-pass %s %s\n", RedisMaster, set.Password)
	}
	file := filepath.Join(s.data(), "sentinel.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return err
	}
	args := append([]string{file, "--sentinel", "--bind", s.ports[0].at(), "--protected-mode", "no", "--dir", s.data(), "--daemonize", "no"}, set.listen(s.ports[0].String())...)
	s.commands = []command{{path: bin, args: args}}
	open := set
	open.Password = "" // Sentinels have none
	s.answers = func(ctx context.Context) error {
		_, err := open.ask(ctx, s.addr, "PING")
		return err
	}
	s.fit = func(ctx context.Context) error {
		info, err := open.ask(ctx, s.addr, "INFO", "sentinel")
		if err == nil && !strings.Contains(info, "status=ok") || !strings.Contains(info, "slaves=1,sentinels=3") {
			err = errors.Join(err, fmt.Errorf("the Sentinel says %q", info))
		}
		return err
	}
	return nil
}

// until asks a server until its answer contains this.
func (set RedisSetup) until(ctx context.Context, s *Server, want string, words ...string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err := s.wait(ctx, func(ctx context.Context) error {
		text, err := set.ask(ctx, s.addr, words...)
		if err == nil && !strings.Contains(text, want) {
			err = fmt.Errorf("%s says %q, want %s", strings.Join(words, " "), text, want)
		}
		return err
	})
	if err != nil {
		return s.failed("wait for", err)
	}
	return nil
}

const redisSlots = 16384

// RedisCluster runs a Cluster of masters that share the slots, and of replicas, the first
// of the first master. It returns once every node knows all others.
func RedisCluster(ctx context.Context, set RedisSetup, masters, replicas int) (nodes []*Server, err error) {
	bin, err := FindRedis()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, CloseAll(nodes))
			nodes = nil
		}
	}()
	for range masters + replicas {
		s, err := launch(ctx, "redis-cluster", 2, func(s *Server) error {
			err := s.redis(bin, set, "--cluster-enabled", "yes", "--cluster-port", s.ports[1].String(), "--cluster-node-timeout", "1000",
				"--cluster-replica-validity-factor", "0")
			s.url = set.scheme("redis+cluster") + "://" + s.addr
			s.fit = func(ctx context.Context) error {
				info, err := set.ask(ctx, s.addr, "CLUSTER", "INFO")
				if err == nil && (!strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r\n", masters+replicas))) {
					err = fmt.Errorf("the node says %q", info)
				}
				return err
			}
			return err
		})
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, s)
	}
	if err := set.join(ctx, nodes, masters); err != nil {
		return nodes, err
	}
	for i, s := range nodes {
		if err := s.Ready(ctx); err != nil {
			return nodes, err
		}
		if i < masters {
			continue
		}
		master := nodes[(i-masters)%masters]
		id, err := set.ask(ctx, master.addr, "CLUSTER", "MYID")
		if err == nil {
			err = set.until(ctx, s, "OK", "CLUSTER", "REPLICATE", id) // once it knows the master
		}
		if err == nil {
			err = set.until(ctx, master, "state=online", "INFO", "replication")
		}
		if err != nil {
			return nodes, err
		}
	}
	return nodes, nil
}

// join gives the masters their slots and makes all nodes known to each other.
func (set RedisSetup) join(ctx context.Context, nodes []*Server, masters int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	first := nodes[0]
	for i, s := range nodes {
		_, err := set.ask(ctx, s.addr, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if err == nil && i < masters {
			_, err = set.ask(ctx, s.addr, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(redisSlots*i/masters), strconv.Itoa(redisSlots*(i+1)/masters-1))
		}
		if err == nil && i > 0 {
			_, err = set.ask(ctx, s.addr, "CLUSTER", "MEET", "127.0.0.1", first.ports[0].String(), first.ports[1].String())
		}
		if err != nil {
			return s.failed("join", err)
		}
	}
	return nil
}
