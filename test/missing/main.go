// Missing prints a line for every real server, interpreter and compiler that the tests
// could use and that is not installed: what they print when they skip. It is what scripts/deps.sh
// goes by, so that the servers are listed in one place.
//
//	missing        the lines
//	missing apt    only the packages of Debian and Ubuntu to install
//	missing jars   only the servers whose jars have to be copied, and the directories to copy them into
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/rota-dev/rota/internal/servers"
	"github.com/rota-dev/rota/test/kafka"
)

func main() {
	what := ""
	if len(os.Args) > 1 {
		what = os.Args[1]
	}
	jars, err := kafka.Jars()
	if err != nil {
		fmt.Fprintln(os.Stderr, "missing:", err)
		os.Exit(1)
	}
	var packages []string
	for _, find := range []func() (string, error){
		servers.FindRedis, servers.FindEtcd, servers.FindZooKeeper, servers.FindRabbitMQ, servers.FindActiveMQ,
		servers.FindBash, servers.FindPython, servers.FindNode, servers.FindCC,
		servers.FindActiveMQ6, func() (string, error) { return servers.FindKafka(jars) },
	} {
		_, err := find()
		var m *servers.Missing
		if !errors.As(err, &m) {
			continue
		}
		packages = append(packages, m.Packages...)
		switch {
		case what == "":
			fmt.Println("SKIP", m)
		case what == "jars" && m.Jars != "" && m.Packages == nil:
			fmt.Println(m.Server, m.Jars)
		}
	}
	if what == "apt" {
		slices.Sort(packages)
		for _, p := range slices.Compact(packages) {
			fmt.Println(p)
		}
	}
}
