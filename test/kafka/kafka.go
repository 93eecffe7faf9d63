// Package kafka says where the jars of a Kafka broker are.
package kafka

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
)

//go:embed pom.xml
var pom []byte

// Jars is the directory that `make test` copies the jars of pom.xml into and
// that later runs find them in. ROTA_KAFKA_JARS names another.
func Jars() (string, error) {
	if dir := os.Getenv("ROTA_KAFKA_JARS"); dir != "" {
		return dir, nil
	}
	var project struct {
		Version string `xml:"version"`
	}
	if err := xml.Unmarshal(pom, &project); err != nil {
		return "", fmt.Errorf("pom.xml: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "rota", "kafka-"+project.Version), nil
}
