package ops

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
)

// A token in JSON is a string: jq and JavaScript round numbers above 2^53, and two
// grants would look the same.
func TestTokensInJSONAreStrings(t *testing.T) {
	const token = 1927066583499276289
	st := &rota.Status{Partitions: []rota.PartitionInfo{{Name: "q0", State: "OWNED", Owner: "1", Token: token}}}
	status := shapeStatus(st, time.Now())
	explained, err := explainShape(st, "q0", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for what, shape := range map[string]any{"status": status, "explain": explained} {
		b, err := json.Marshal(shape)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), `"token":"1927066583499276289"`) {
			t.Errorf("%s -o json: %s", what, b)
		}
	}
}
