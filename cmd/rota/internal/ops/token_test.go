package ops

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"
)

// A token in JSON is a string: jq and JavaScript round numbers above 2^53, and two
// grants would look the same.
func TestTokensInJSONAreStrings(t *testing.T) {
	c := newCrew(t)
	c.join("c1", 5*time.Second)
	c.rests(1)
	var status struct {
		Partitions []struct {
			Name  string
			Token any
		}
	}
	if err := json.Unmarshal([]byte(c.must("status", "-o", "json")), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Partitions) == 0 {
		t.Fatal("no partitions")
	}
	for _, p := range status.Partitions {
		var explained struct{ Token any }
		if err := json.Unmarshal([]byte(c.must("explain", p.Name, "-o", "json")), &explained); err != nil {
			t.Fatal(err)
		}
		for what, token := range map[string]any{"status": p.Token, "explain": explained.Token} {
			text, ok := token.(string)
			if n, err := strconv.ParseUint(text, 10, 64); !ok || err != nil || n < 1<<53 {
				t.Errorf("%s -o json: the token of %s is %v, %[3]T", what, p.Name, token)
			}
		}
	}
}
