package servers

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// KafkaVersion is the version of Kafka that test/kafka/pom.xml names.
const KafkaVersion = "4.3.1"

// KafkaJars is the directory that `make test` copies the jars of test/kafka/pom.xml into
// and that later runs find them in. ROTA_KAFKA_JARS names another.
func KafkaJars() (string, error) {
	if dir := os.Getenv("ROTA_KAFKA_JARS"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "rota", "kafka-"+KafkaVersion), nil
}

// A KafkaSetup says how a Kafka broker is run, beyond what every test needs. The zero
// value is a broker that anybody may use. With Pair it has two listeners more.
type KafkaSetup struct {
	Pair      string            // a PEM file with its key and its certificate
	Authority string            // a PEM file with the authority whose certificates clients show
	Users     map[string]string // who may sign in where TLS is: passwords, for PLAIN and both SCRAMs
	Lines     []string          // further lines of its configuration
}

// Kafka runs one node that is broker and controller, from a directory of jars.
func Kafka(ctx context.Context, jars string) (*Server, error) {
	return KafkaWith(ctx, jars, KafkaSetup{})
}

// KafkaWith is Kafka with a setup of its own.
func KafkaWith(ctx context.Context, jars string, set KafkaSetup) (*Server, error) {
	jars, err := FindKafka(jars)
	if err != nil {
		return nil, err
	}
	return launch(ctx, "kafka", 4, func(s *Server) error {
		s.url = "kafka://" + s.addr
		// Sessions short, for a broker that was killed is let in again only when
		// its former session is over; files small, for they are reserved in full.
		cfg, err := s.conf("server.properties", fmt.Sprintf(`process.roles=broker,controller
node.id=1
listeners=CLIENT://%[1]s,CONTROLLER://%[2]s%[4]s
advertised.listeners=CLIENT://%[1]s%[4]s
controller.quorum.bootstrap.servers=%[2]s
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENT
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,SIGNED:SASL_SSL,MUTUAL:SSL
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
%[5]s`, s.addr, s.ports[1].addr(), s.data(), set.listeners(s), set.lines()))
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
		format := run(256, append([]string{"kafka.tools.StorageTool", "format", "--standalone", "-t", clusterID(), "-c", cfg}, set.scram()...)...)
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

// KafkaSigned and KafkaMutual are the addresses of the listeners that a setup with Pair has:
// where clients sign in by SASL over TLS, and where they show a certificate.
func KafkaSigned(s *Server) string { return s.ports[2].addr() }
func KafkaMutual(s *Server) string { return s.ports[3].addr() }

func (set KafkaSetup) listeners(s *Server) string {
	if set.Pair == "" {
		return ""
	}
	return ",SIGNED://" + KafkaSigned(s) + ",MUTUAL://" + KafkaMutual(s)
}

// lines are the lines of the configuration that come from the setup.
func (set KafkaSetup) lines() string {
	lines := slices.Clone(set.Lines)
	if set.Pair != "" {
		known := ""
		for _, user := range slices.Sorted(maps.Keys(set.Users)) {
			known += fmt.Sprintf(` user_%s="%s"`, user, set.Users[user])
		}
		lines = append(lines,
			"ssl.keystore.type=PEM", "ssl.keystore.location="+set.Pair, "ssl.truststore.type=PEM", "ssl.truststore.location="+set.Authority,
			"listener.name.mutual.ssl.client.auth=required", "listener.name.signed.ssl.client.auth=none",
			"listener.name.signed.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
			"listener.name.signed.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"+known+";",
			"listener.name.signed.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
			"listener.name.signed.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;")
	}
	return strings.Join(append(lines, ""), "\n")
}

// scram are the arguments that make the users known for SCRAM.
func (set KafkaSetup) scram() (args []string) {
	for _, user := range slices.Sorted(maps.Keys(set.Users)) {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, user, set.Users[user]))
		}
	}
	return args
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
