package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// An ActiveMQSetup says how a broker is run.
type ActiveMQSetup struct {
	Plugins   string // elements of activemq.xml: users, rights, statistics
	Policies  string // policyEntry elements of activemq.xml
	TLS       bool   // also listens with TLS, with a certificate of its own: see ActiveMQCertificate
	Authority string // with TLS: a file; clients show a certificate of this authority
	Data      string // the directory of the messages, if several brokers share one: the others wait until it is free
	Unsynced  bool   // does not sync its disk: for benchmarks, which fill queues
	Beat      string // after so many milliseconds without a sign a client of AMQP is dead; default 30000
}

// ActiveMQStatistics is the plugin that answers questions for statistics.
const ActiveMQStatistics = "<statisticsBrokerPlugin/>"

// ActiveMQVersion is that of test/activemq/pom.xml.
const ActiveMQVersion = "6.3.1"

// ActiveMQJars is the directory that `make test` copies the jars of test/activemq/pom.xml
// into and that later runs find them in. ROTA_ACTIVEMQ_JARS names another.
func ActiveMQJars() (string, error) {
	if dir := os.Getenv("ROTA_ACTIVEMQ_JARS"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "rota", "activemq-"+ActiveMQVersion), err
}

// ActiveMQ runs Debian's broker, which speaks STOMP and has no statistics.
func ActiveMQ(ctx context.Context) (*Server, error) {
	jar, err := FindActiveMQ()
	if err != nil {
		return nil, err
	}
	return launch(ctx, "activemq", 1, func(s *Server) error {
		home := filepath.Dir(filepath.Dir(jar))
		return s.activeMQ(ActiveMQSetup{}, []string{"stomp"}, func(cfg string) command {
			return java(256, "-Dactivemq.home="+home, "-Dactivemq.base="+s.Dir, "-Dactivemq.conf="+s.path("conf"), "-Dactivemq.data="+s.data(),
				"-jar", jar, "start", "xbean:file:"+cfg)
		})
	})
}

// ActiveMQ6 runs a broker that speaks STOMP and AMQP 1.0, from a directory of jars. Its
// address is that of STOMP, At has the others.
func ActiveMQ6(ctx context.Context, set ActiveMQSetup) (*Server, error) {
	s, err := NewActiveMQ6(set)
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// NewActiveMQ6 is ActiveMQ6 without the start.
func NewActiveMQ6(set ActiveMQSetup) (*Server, error) {
	jars, err := FindActiveMQ6()
	if err != nil {
		return nil, err
	}
	protocols := []string{"stomp", "amqp"}
	if set.TLS {
		protocols = append(protocols, "stomp+ssl", "amqp+ssl")
	}
	return create("activemq", len(protocols), func(s *Server) error {
		logging, err := s.conf("log4j2.properties", `rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c{1})%n
logger.locker.name = org.apache.activemq.store.SharedFileLocker
logger.locker.level = info
`)
		if err != nil {
			return err
		}
		return s.activeMQ(set, protocols, func(cfg string) command {
			return java(384, "-Dlog4j2.configurationFile="+logging, "-Dactivemq.home="+s.Dir, "-Dactivemq.base="+s.Dir,
				"-Dactivemq.conf="+s.path("conf"), "-Dactivemq.data="+s.data(), "-cp", filepath.Join(jars, "*"),
				"org.apache.activemq.console.command.ShellCommand", "start", "xbean:file:"+cfg)
		})
	})
}

// ActiveMQPair runs two brokers over one directory of messages. The first serves, the other
// is its standby: it listens to nobody until the first has ended. See Launch, Ready and
// ActiveMQStandby.
func ActiveMQPair(ctx context.Context, set ActiveMQSetup) (pair []*Server, err error) {
	set.Data, err = os.MkdirTemp("", "rota-activemq-")
	for range 2 {
		var s *Server
		if err == nil {
			s, err = NewActiveMQ6(set)
		}
		if err == nil {
			s.fit = s.answers
			s.leaves = append(s.leaves, set.Data)
			pair = append(pair, s)
		}
	}
	if err == nil {
		err = pair[0].Start(ctx)
	}
	if err == nil {
		err = pair[1].Launch()
	}
	if err == nil {
		err = pair[1].ActiveMQStandby(ctx)
	}
	if err != nil {
		for _, s := range pair {
			s.Close()
		}
		return nil, err
	}
	return pair, nil
}

// ActiveMQStandby returns once the broker waits for the other one of its pair to end. Nobody can
// ask it, so its log is read.
func (s *Server) ActiveMQStandby(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	err := s.wait(ctx, func(context.Context) error {
		log, err := os.ReadFile(s.Log())
		if err != nil {
			return err
		}
		_, now, _ := strings.Cut(string(log), s.startLine())
		if !strings.Contains(now, "is locked by another server") {
			return errors.New("it has not asked for the lock yet")
		}
		return nil
	})
	if err != nil {
		return s.failed("wait for", err)
	}
	return nil
}

// activeMQ writes activemq.xml. The first protocol is that of the server's address.
func (s *Server) activeMQ(set ActiveMQSetup, protocols []string, run func(cfg string) command) error {
	s.url = "stomp://" + s.addr
	s.more = map[string]string{}
	var connectors, tls strings.Builder
	for i, p := range protocols {
		s.more[p] = s.ports[i].addr()
		var options []string
		if strings.HasPrefix(p, "amqp") && set.Beat != "" {
			options = append(options, "transport.wireFormat.idleTimeout="+set.Beat)
		}
		if strings.HasSuffix(p, "+ssl") && set.Authority != "" {
			options = append(options, "needClientAuth=true")
		}
		uri := p + "://" + s.more[p]
		if options != nil {
			uri += "?" + strings.Join(options, "&amp;")
		}
		fmt.Fprintf(&connectors, `<transportConnector name="%s" uri="%s"/>`, p, uri)
	}
	if set.TLS {
		if err := s.keyStore(set, &tls); err != nil {
			return err
		}
	}
	store := set.Data
	if store == "" {
		store = s.data() + "/kahadb"
	}
	cfg, err := s.conf("activemq.xml", fmt.Sprintf(`<beans xmlns="http://www.springframework.org/schema/beans"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans http://www.springframework.org/schema/beans/spring-beans.xsd
                           http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="localhost" dataDirectory="%s" useJmx="false" schedulerSupport="false">
    %s
    <persistenceAdapter><kahaDB directory="%s" journalMaxFileLength="4mb" enableJournalDiskSyncs="%t"><locker><shared-file-locker lockAcquireSleepInterval="100"/></locker></kahaDB></persistenceAdapter>
    %s
    %s
    <transportConnectors>%s</transportConnectors>
  </broker>
</beans>
`, s.data(), element("destinationPolicy", element("policyMap", element("policyEntries", set.Policies))), store, !set.Unsynced, element("plugins", set.Plugins), &tls, &connectors))
	if err != nil {
		return err
	}
	s.commands = []command{run(cfg)}
	s.answers = func(ctx context.Context) error {
		// With users, the answer is an error, which is an answer.
		return ask(ctx, s.addr, "CONNECT\naccept-version:1.2\nhost:localhost\n\n\x00", wantLine("CONNECTED\n", "ERROR\n"))
	}
	return nil
}

// element is an element of XML, or nothing if nothing is in it.
func element(name, in string) string {
	if in == "" {
		return ""
	}
	return "<" + name + ">" + in + "</" + name + ">"
}

// storePassword protects nothing: the files are those of a test.
const storePassword = "password"

// ActiveMQCertificate is the file with the certificate that a broker with TLS shows.
func (s *Server) ActiveMQCertificate() string { return filepath.Join(s.path("conf"), "server.pem") }

// keyStore makes the broker's key and certificate, in the format that Java reads.
func (s *Server) keyStore(set ActiveMQSetup, xml *strings.Builder) error {
	keys, trusted := filepath.Join(s.path("conf"), "keys.p12"), filepath.Join(s.path("conf"), "trusted.p12")
	steps := [][]string{
		{"-genkeypair", "-alias", "server", "-keyalg", "EC", "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1", "-validity", "2", "-keystore", keys},
		{"-exportcert", "-rfc", "-alias", "server", "-keystore", keys, "-file", s.ActiveMQCertificate()},
	}
	stores := fmt.Sprintf(`keyStore="file:%s" keyStoreType="PKCS12" keyStorePassword="%s"`, keys, storePassword)
	if set.Authority != "" {
		steps = append(steps, []string{"-importcert", "-noprompt", "-alias", "clients", "-file", set.Authority, "-keystore", trusted})
		stores += fmt.Sprintf(` trustStore="file:%s" trustStoreType="PKCS12" trustStorePassword="%s"`, trusted, storePassword)
	}
	for _, args := range steps {
		args = append(args, "-storetype", "PKCS12", "-storepass", storePassword)
		if out, err := exec.Command("keytool", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("keytool %s: %w: %s", args[0], err, out)
		}
	}
	fmt.Fprintf(xml, `<sslContext><sslContext %s/></sslContext>`, stores)
	return nil
}
