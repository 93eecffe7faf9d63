package servers

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMissingServersSayHowToInstallThem(t *testing.T) {
	if !supported {
		t.Skip("on Linux only")
	}
	t.Setenv("PATH", t.TempDir())
	jars := t.TempDir()
	nothing := filepath.Join(jars, "nats-server")
	apt := "apt-get install -y --no-install-recommends "
	if os.Geteuid() != 0 {
		apt = "sudo " + apt
	}
	for want, find := range map[string]func() (string, error){
		"redis: install it with: " + apt + "redis-server":                       FindRedis,
		"etcd: install it with: " + apt + "etcd-server":                         FindEtcd,
		"zookeeper: install it with: " + apt:                                    FindZooKeeper,
		"bash: install it with: " + apt + "bash":                                FindBash,
		"python: install it with: " + apt + "python3":                           FindPython,
		"node: install it with: " + apt + "nodejs":                              FindNode,
		"cc: install it with: " + apt + "gcc libc6-dev":                         FindCC,
		"rabbitmq: install it with: " + apt:                                     FindRabbitMQ,
		"activemq: install it with: " + apt:                                     FindActiveMQ,
		"nats: install it with: go build -o '" + nothing:                        func() (string, error) { return FindNATS(nothing) },
		"kafka: install it with: " + apt + "default-jre-headless maven && mvn ": func() (string, error) { return FindKafka(jars) },
	} {
		_, err := find()
		var m *Missing
		if !errors.As(err, &m) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
