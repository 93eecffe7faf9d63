package servers

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
)

// A RabbitSetup says how RabbitMQ is run, beyond what every test needs. The zero value is a
// broker without TLS. User guest has the password guest, and all rights.
type RabbitSetup struct {
	CA, Cert, Key string // files: with TLS only, for the management API too; clients may have a certificate of CA, and sign in by it
}

// RabbitMQ runs one broker with the management API, which Admin tells, and with a port mapper
// of its own: the usual one would be shared by all on the machine and would outlive them.
//
// Killed within milliseconds of the answer to a queue.declare, RabbitMQ 3.10 has
// lost that queue now and then, and with it what it had confirmed there: the
// record of the queue is on disk, but not yet the one that it was committed.
func RabbitMQ(ctx context.Context) (*Server, error) { return RabbitMQWith(ctx, RabbitSetup{}) }

// RabbitMQWith is RabbitMQ with a setup of its own.
func RabbitMQWith(ctx context.Context, set RabbitSetup) (*Server, error) {
	bin, err := FindRabbitMQ()
	if err != nil {
		return nil, err
	}
	return launch(ctx, "rabbitmq", 4, func(s *Server) error {
		mapper := s.ports[3]
		if err := s.rabbitMQ(bin, set, rabbitNode{name: "t@localhost", mapper: mapper}); err != nil {
			return err
		}
		s.commands = append([]command{epmd(mapper)}, s.commands...)
		return nil
	})
}

// A rabbitNode is what sets the nodes of a machine apart.
type rabbitNode struct {
	name   string
	mapper port   // of the port mapper, by which nodes find each other
	lines  string // further lines of its configuration
}

// epmd is the port mapper of Erlang.
func epmd(at port) command {
	return command{path: "epmd", args: []string{"-port", at.String(), "-address", "127.0.0.1"}}
}

// rabbitMQ fills in how a node is run. Its ports are that of clients, that of other nodes and
// that of the management API.
func (s *Server) rabbitMQ(bin string, set RabbitSetup, node rabbitNode) error {
	s.url = "amqp://guest:guest@" + s.addr + "/"
	s.admin = s.ports[2].addr()
	cfg, err := s.conf("rabbitmq.conf", set.config(s.addr, s.ports[2].String())+node.lines)
	if err != nil {
		return err
	}
	plugins := "rabbitmq_management"
	if set.Cert != "" {
		s.url = "amqps://guest:guest@" + s.addr + "/"
		plugins += ",rabbitmq_auth_mechanism_ssl"
	}
	enabled, err := s.conf("enabled_plugins", "["+plugins+"].\n")
	if err != nil {
		return err
	}
	s.commands = []command{{path: bin, env: []string{
		"RUNNING_UNDER_SYSTEMD=true", // makes the script become the broker, so that a kill hits it
		"ERL_EPMD_PORT=" + node.mapper.String(),
		"RABBITMQ_NODENAME=" + node.name,
		"RABBITMQ_NODE_PORT=" + s.ports[0].String(),
		"RABBITMQ_DIST_PORT=" + s.ports[1].String(),
		"RABBITMQ_MNESIA_BASE=" + s.data(),
		"RABBITMQ_LOG_BASE=" + s.path("tmp"),
		"RABBITMQ_LOGS=-",
		"RABBITMQ_CONFIG_FILE=" + cfg,
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + enabled,
		"RABBITMQ_PID_FILE=" + filepath.Join(s.path("tmp"), "pid"),
		"RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
	}}}
	s.answers = func(ctx context.Context) error { return set.answers(ctx, s.addr, s.admin) }
	return nil
}

// config is the broker's configuration.
func (set RabbitSetup) config(addr, admin string) string {
	if set.Cert == "" {
		return fmt.Sprintf("listeners.tcp.1 = %s\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %s\n", addr, admin)
	}
	return fmt.Sprintf(`listeners.tcp = none
listeners.ssl.1 = %[1]s
ssl_options.cacertfile = %[3]s
ssl_options.certfile = %[4]s
ssl_options.keyfile = %[5]s
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = false
ssl_cert_login_from = common_name
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = EXTERNAL
management.ssl.ip = 127.0.0.1
management.ssl.port = %[2]s
management.ssl.cacertfile = %[3]s
management.ssl.certfile = %[4]s
management.ssl.keyfile = %[5]s
`, addr, admin, set.CA, set.Cert, set.Key)
}

// answers asks the broker for its greeting, and whether the management API listens.
func (set RabbitSetup) answers(ctx context.Context, addr, admin string) error {
	conn, err := set.dial(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		conn.SetDeadline(end)
	}
	if _, err := io.WriteString(conn, "AMQP\x00\x00\x09\x01"); err != nil {
		return err
	}
	frame := make([]byte, 11)
	if _, err := io.ReadFull(bufio.NewReader(conn), frame); err != nil {
		return err
	}
	if !bytes.HasSuffix(frame, []byte{0, 10, 0, 10}) { // connection.start
		return fmt.Errorf("it answers %q", frame)
	}
	manages, err := set.dial(ctx, admin)
	if err != nil {
		return err
	}
	return manages.Close()
}

func (set RabbitSetup) dial(ctx context.Context, addr string) (net.Conn, error) {
	if set.Cert == "" {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
	c, err := set.trust()
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{Config: c}
	return d.DialContext(ctx, "tcp", addr)
}

// trust is the TLS of a client.
func (set RabbitSetup) trust() (*tls.Config, error) {
	pem, err := os.ReadFile(set.CA)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	c.RootCAs.AppendCertsFromPEM(pem)
	return c, nil
}
