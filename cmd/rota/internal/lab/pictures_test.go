package lab

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPicturesAreNotStale compares docs/pictures with what would be drawn now.
func TestPicturesAreNotStale(t *testing.T) {
	all, err := pictures()
	if err != nil {
		t.Fatal(err)
	}
	for name, drawn := range all {
		file := filepath.Join("../../../../docs/pictures", name)
		there, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%v: make pictures", err)
			continue
		}
		if string(there) != drawn {
			t.Errorf("docs/pictures/%s is stale: make pictures, and look at it", name)
		}
		d := xml.NewDecoder(strings.NewReader(drawn))
		for err == nil {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s is no XML: %v", name, err)
		}
	}
}
