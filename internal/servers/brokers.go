package servers

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
)

// java is a virtual machine that starts quickly and is content with little: made
// for tests, not for benchmarks.
func java(megabytes int, args ...string) command {
	return command{path: "java", args: append([]string{
		fmt.Sprintf("-Xmx%dm", megabytes), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
	}, args...)}
}

// RabbitMQ runs one broker, with a port mapper of its own: the usual one would
// be shared by all on the machine and would outlive them.
//
// Killed within milliseconds of the answer to a queue.declare, RabbitMQ 3.10 has
// lost that queue now and then, and with it what it had confirmed there: the
// record of the queue is on disk, but not yet the one that it was committed.
func RabbitMQ(ctx context.Context) (*Server, error) {
	bin, err := FindRabbitMQ()
	if err != nil {
		return nil, err
	}
	return launch(ctx, "rabbitmq", 3, func(s *Server) error {
		s.url = "amqp://guest:guest@" + s.addr + "/"
		cfg, err := s.conf("rabbitmq.conf", "listeners.tcp.1 = "+s.addr+"\n")
		if err != nil {
			return err
		}
		plugins, err := s.conf("enabled_plugins", "[].\n")
		if err != nil {
			return err
		}
		mapper := s.ports[2].String()
		s.commands = []command{
			{path: "epmd", args: []string{"-port", mapper, "-address", "127.0.0.1"}},
			{path: bin, env: []string{
				"RUNNING_UNDER_SYSTEMD=true", // makes the script become the broker, so that a kill hits it
				"ERL_EPMD_PORT=" + mapper,
				"RABBITMQ_NODENAME=t@localhost",
				"RABBITMQ_NODE_PORT=" + s.ports[0].String(),
				"RABBITMQ_DIST_PORT=" + s.ports[1].String(),
				"RABBITMQ_MNESIA_BASE=" + s.data(),
				"RABBITMQ_LOG_BASE=" + s.path("tmp"),
				"RABBITMQ_LOGS=-",
				"RABBITMQ_CONFIG_FILE=" + cfg,
				"RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins,
				"RABBITMQ_PID_FILE=" + filepath.Join(s.path("tmp"), "pid"),
				"RABBITMQ_CONF_ENV_FILE=/dev/null",
				"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 2:2 +sbwt none",
			}},
		}
		s.answers = func(ctx context.Context) error {
			return ask(ctx, s.addr, "AMQP\x00\x00\x09\x01", func(r *bufio.Reader) error {
				frame := make([]byte, 11)
				if _, err := io.ReadFull(r, frame); err != nil {
					return err
				}
				if !bytes.HasSuffix(frame, []byte{0, 10, 0, 10}) { // connection.start
					return fmt.Errorf("it answers %q", frame)
				}
				return nil
			})
		}
		return nil
	})
}

// ActiveMQ runs one broker that speaks STOMP.
func ActiveMQ(ctx context.Context) (*Server, error) {
	jar, err := FindActiveMQ()
	if err != nil {
		return nil, err
	}
	return launch(ctx, "activemq", 1, func(s *Server) error {
		s.url = "stomp://" + s.addr
		cfg, err := s.conf("activemq.xml", fmt.Sprintf(`<beans xmlns="http://www.springframework.org/schema/beans"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans.xsd
                           http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="localhost" dataDirectory="%[1]s" useJmx="false" schedulerSupport="false">
    <persistenceAdapter><kahaDB directory="%[1]s/kahadb" journalMaxFileLength="4mb"/></persistenceAdapter>
    <transportConnectors><transportConnector name="stomp" uri="stomp://%[2]s"/></transportConnectors>
  </broker>
</beans>
`, s.data(), s.addr))
		if err != nil {
			return err
		}
		home := filepath.Dir(filepath.Dir(jar))
		s.commands = []command{java(256,
			"-Dactivemq.home="+home, "-Dactivemq.base="+s.Dir, "-Dactivemq.conf="+s.path("conf"), "-Dactivemq.data="+s.data(),
			"-jar", jar, "start", "xbean:file:"+cfg)}
		s.answers = func(ctx context.Context) error {
			return ask(ctx, s.addr, "CONNECT\naccept-version:1.2\nhost:localhost\n\n\x00", wantLine("CONNECTED\n"))
		}
		return nil
	})
}

// Kafka runs one node that is broker and controller, from a directory of jars.
func Kafka(ctx context.Context, jars string) (*Server, error) {
	jars, err := FindKafka(jars)
	if err != nil {
		return nil, err
	}
	return launch(ctx, "kafka", 2, func(s *Server) error {
		s.url = "kafka://" + s.addr
		// Sessions short, for a broker that was killed is let in again only when
		// its former session is over; files small, for they are reserved in full.
		cfg, err := s.conf("server.properties", fmt.Sprintf(`process.roles=broker,controller
node.id=1
listeners=CLIENT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=CLIENT://%[1]s
controller.quorum.bootstrap.servers=%[2]s
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENT
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[3]s
log.index.size.max.bytes=65536
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=200
broker.session.timeout.ms=1000
`, s.addr, s.ports[1].addr(), s.data()))
		if err != nil {
			return err
		}
		logging, err := s.conf("log4j2.properties", `rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c{1})%n
`)
		if err != nil {
			return err
		}
		run := func(megabytes int, args ...string) command {
			return java(megabytes, append([]string{"-Dlog4j2.configurationFile=" + logging, "-cp", filepath.Join(jars, "*")}, args...)...)
		}
		format := run(256, "kafka.tools.StorageTool", "format", "--standalone", "-t", clusterID(), "-c", cfg)
		p, err := s.run(format)
		if err != nil {
			return err
		}
		defer p.kill()
		select {
		case <-p.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !p.cmd.ProcessState.Success() {
			return fmt.Errorf("formatting: %v", p.cmd.ProcessState)
		}
		s.commands = []command{run(512, "kafka.Kafka", cfg)}
		s.answers = func(ctx context.Context) error { return ask(ctx, s.addr, brokersQuestion, brokersAnswer) }
		return nil
	})
}

// clusterID is what the random-uuid tool prints, without a second of Java.
func clusterID() string {
	id := make([]byte, 16)
	rand.Read(id)
	return "c" + base64.RawURLEncoding.EncodeToString(id)[1:] // a leading - would be an option
}

// brokersQuestion asks for metadata (3) of no topic, by version 1 of the request:
// an open port says little, but a broker that is let in lists itself.
var brokersQuestion = func() string {
	body := []byte{0, 3, 0, 1, 0, 0, 0, 42, 0, 4, 'r', 'o', 't', 'a', 0, 0, 0, 0}
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + string(body)
}()

func brokersAnswer(r *bufio.Reader) error {
	var head struct{ Size, Correlation, Brokers int32 }
	if err := binary.Read(r, binary.BigEndian, &head); err != nil {
		return err
	}
	if head.Correlation != 42 || head.Brokers < 1 {
		return fmt.Errorf("it lists %d brokers", head.Brokers)
	}
	return nil
}
