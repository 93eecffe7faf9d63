package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Missing is the error of a server that is not installed. Its text reads well
// after "SKIP ".
type Missing struct {
	Server   string
	Packages []string // of Debian and Ubuntu, that have to be installed
	Jars     string   // the directory that Maven has to copy jars into, by test/SERVER/pom.xml; "" if nothing is missing there
	Install  string   // the exact command that does all there is to do, "" where none helps
}

func (m *Missing) Error() string {
	if m.Install == "" {
		return m.Server + ": real servers are run on Linux only"
	}
	return m.Server + ": install it with: " + m.Install
}

// FindRedis returns the path of redis-server.
func FindRedis() (string, error) { return find("redis", "redis-server", "redis-server") }

// FindEtcd returns the path of etcd.
func FindEtcd() (string, error) { return find("etcd", "etcd", "etcd-server") }

// FindRabbitMQ returns the path of the script that runs the broker as whoever
// calls it. The one of the same name in PATH insists on a user of its own.
func FindRabbitMQ() (string, error) {
	return find("rabbitmq", "/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server", "epmd")
}

// FindZooKeeper returns the class path of ZooKeeper.
func FindZooKeeper() (string, error) {
	jar, err := findJar("zookeeper", "/usr/share/java/zookeeper.jar", "zookeeper")
	return jar + ":/usr/share/java/slf4j-nop.jar", err
}

// FindActiveMQ returns the path of the broker's jar.
func FindActiveMQ() (string, error) {
	return findJar("activemq", "/usr/share/activemq/bin/activemq.jar", "activemq")
}

// FindBash, FindPython and FindNode return the paths of the interpreters that the examples
// for other languages need, FindCC that of a C compiler.
func FindBash() (string, error)   { return find("bash", "bash", "bash") }
func FindPython() (string, error) { return find("python", "python3", "python3") }
func FindNode() (string, error)   { return find("node", "node", "nodejs") }
func FindCC() (string, error) {
	path, err := find("cc", "cc", "gcc")
	if m, missing := err.(*Missing); missing && supported {
		m.Packages = append(m.Packages, "libc6-dev") // it is only recommended
		m.Install = apt(m.Packages)
	}
	return path, err
}

// FindNATS checks the path of a nats-server binary.
func FindNATS(bin string) (string, error) {
	m := &Missing{Server: "nats"}
	if !supported {
		return "", m
	}
	path, err := exec.LookPath(bin)
	if err != nil {
		m.Install = fmt.Sprintf("go build -o '%s' github.com/nats-io/nats-server/v2", bin)
		return "", m
	}
	return path, nil
}

// FindKafka checks a directory of jars, made from test/kafka/pom.xml.
func FindKafka(jars string) (string, error) {
	return findJars("kafka", jars, "kafka_2.13-*.jar", "log4j-slf4j-impl-*.jar")
}

// FindActiveMQ6 returns the directory of jars that was made from test/activemq/pom.xml.
func FindActiveMQ6() (string, error) {
	jars, err := ActiveMQJars()
	if err != nil {
		return "", err
	}
	return findJars("activemq", jars, "activemq-amqp-*.jar", "activemq-jaas-*.jar", "log4j-slf4j2-impl-*.jar", "xstream-*.jar")
}

// findJars checks a directory that Maven has copied jars into, by the pom.xml of the
// server's folder in test.
func findJars(server, jars string, want ...string) (string, error) {
	m := &Missing{Server: server}
	if !supported {
		return "", m
	}
	fetch := false
	for _, pattern := range want {
		found, _ := filepath.Glob(filepath.Join(jars, pattern))
		fetch = fetch || len(found) == 0
	}
	if _, err := exec.LookPath("java"); err != nil {
		m.Packages = append(m.Packages, "default-jre-headless")
	}
	if _, err := exec.LookPath("mvn"); err != nil && fetch {
		m.Packages = append(m.Packages, "maven")
	}
	if !fetch && m.Packages == nil {
		return jars, nil
	}
	var steps []string
	if m.Packages != nil {
		steps = append(steps, apt(m.Packages))
	}
	if fetch {
		m.Jars = jars
		steps = append(steps, fmt.Sprintf("mvn -B -q -f test/%s/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory='%s'", server, jars))
	}
	m.Install = strings.Join(steps, " && ")
	return "", m
}

// find looks for programs, by path or by name, that come with one package. It
// returns the path of the first.
func find(server, program, pkg string, more ...string) (string, error) {
	m := &Missing{Server: server}
	if !supported {
		return "", m
	}
	path, err := exec.LookPath(program)
	for _, p := range more {
		if _, missing := exec.LookPath(p); missing != nil {
			err = missing
		}
	}
	if err != nil {
		m.Packages = []string{pkg}
		m.Install = apt(m.Packages)
		return "", m
	}
	return path, nil
}

func findJar(server, jar, pkg string) (string, error) {
	m := &Missing{Server: server}
	if !supported {
		return "", m
	}
	if _, err := os.Stat(jar); err != nil {
		m.Packages = append(m.Packages, pkg)
	}
	if _, err := exec.LookPath("java"); err != nil {
		m.Packages = append(m.Packages, "default-jre-headless")
	}
	if m.Packages != nil {
		m.Install = apt(m.Packages)
		return "", m
	}
	return jar, nil
}

func apt(packages []string) string {
	install := "apt-get install -y --no-install-recommends " + strings.Join(packages, " ")
	if os.Geteuid() != 0 {
		return "sudo " + install
	}
	return install
}
