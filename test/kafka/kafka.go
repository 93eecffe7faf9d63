// Package kafka says where the jars of a Kafka broker are.
package kafka

import (
	_ "embed"
	"encoding/xml"
	"fmt"

	"github.com/rota-dev/rota/internal/servers"
)

//go:embed pom.xml
var pom []byte

// Jars is the directory that `make test` copies the jars of pom.xml into.
func Jars() (string, error) {
	var project struct {
		Version string `xml:"version"`
	}
	if err := xml.Unmarshal(pom, &project); err != nil {
		return "", fmt.Errorf("pom.xml: %w", err)
	}
	if project.Version != servers.KafkaVersion {
		return "", fmt.Errorf("pom.xml names version %s, and internal/servers %s", project.Version, servers.KafkaVersion)
	}
	return servers.KafkaJars()
}
