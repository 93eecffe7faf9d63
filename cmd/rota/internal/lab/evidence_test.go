package lab

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rota-dev/rota/internal/explore"
	"github.com/rota-dev/rota/internal/rule"
)

// docs/evidence.md speaks of every configuration and every rule there is, and
// of none that was cut, broken or missed.
func TestEvidenceIsWhole(t *testing.T) {
	b, err := os.ReadFile("../../../../docs/evidence.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, c := range explore.Configs {
		if !strings.Contains(page, "| "+c.Name+" | ") {
			t.Errorf("it does not tell of %q: make evidence", c.Name)
		}
	}
	for _, r := range rule.Known() {
		e := r.Entry()
		if !strings.Contains(page, "| ["+e.Name+"](rules.md#"+e.Name+") | "+e.Without+" | ") {
			t.Errorf("it does not tell that the lack of %s is noticed: make evidence", r)
		}
		if e.Must(rule.Explorer) && !strings.Contains(page, "**"+e.Name+": "+e.Without+"** (") {
			t.Errorf("it does not show how the lack of %s is noticed: make evidence", r)
		}
	}
	counts := regexp.MustCompile(`([0-9,]+) (violations|marks not reached)`).FindAllStringSubmatch(page, -1)
	if len(counts) != 3 {
		t.Errorf("it tells %q of schedules, directed and random", counts)
	}
	for _, c := range counts {
		if c[1] != "0" {
			t.Errorf("it tells of %s", c[0])
		}
	}
	for _, bad := range []string{"**cut**", "**MISSED**", "| **"} {
		if strings.Contains(page, bad) {
			t.Errorf("it has %s in it", bad)
		}
	}
}

// What is missing is said, with what to do.
func TestEvidenceNeedsFigures(t *testing.T) {
	of := &fstest.MapFile{Data: []byte("abc\n")}
	err := writeEvidence(t.Output(), fstest.MapFS{"of": of, "explore.json": {Data: []byte(`{"config":"x"}`)}})
	if err == nil || !strings.Contains(err.Error(), "shown.json: run scripts/evidence.sh first") {
		t.Error(err)
	}
	err = writeEvidence(t.Output(), fstest.MapFS{"of": of, "explore.json": {Data: []byte(`{`)}})
	if err == nil || !strings.Contains(err.Error(), "explore.json: ") {
		t.Error(err)
	}
	err = writeEvidence(t.Output(), fstest.MapFS{"explore.json": {Data: []byte(`{"config":"x"}`)}})
	if err == nil || !strings.Contains(err.Error(), "no commit is recorded for these figures: run scripts/evidence.sh") {
		t.Error(err)
	}
}
