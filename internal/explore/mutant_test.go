//go:build mutants

package explore

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/core"
)

func TestSweep(t *testing.T) {
	if os.Getenv("SWEEP") == "" {
		t.Skip()
	}
	var ids []string
	for _, id := range append(core.Mutants(), "M10", "M11") {
		if id[0] == 'M' {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		if one := os.Getenv("ONE"); one != "" && one != id {
			continue
		}
		for _, c := range Configs {
			if want, ok := likely[id]; ok && !slices.Contains(want, c.Name) && os.Getenv("ALL") == "" {
				continue
			}
			d, undo, ok := c.Defect(id)
			if !ok {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			r := Explore(ctx, d, Options{Cores: 2})
			cancel()
			undo()
			if r.Violation != nil {
				t.Logf("%s caught by %-30s %7d states %3d steps %.1fs %v", id, c.Name, r.States, r.Depth, r.Seconds, r.Violation)
				if os.Getenv("ALL") == "" {
					break
				}
			}
		}
	}
}

var likely = map[string][]string{
	"M1":  {"2m1p A1 then A2, busy"},
	"M2":  {"2m1p freeze twice", "2m1p crash+freeze"},
	"M3":  {"3m1p leader's writes late", "2m1p plan write unknown"},
	"M4":  {"2m1p stale", "3m1p stale"},
	"M5":  {"2m1p late+freeze"},
	"M5b": {"2m1p late death"},
	"M6":  {"2m1p lost, split", "2m1p late+repeated, split"},
	"M7":  {"2m1p lapse", "2m1p freeze twice"},
	"M8":  {"2m1p A1 then A2, busy"},
	"M9":  {"2m1p A1 then A2, busy"},
	"M10": {"2m1p effects+freeze"},
	"M11": {"2m1p sleep"},
	"M12": {"2m1p evicted"},
	"M13": {"2m1p rollback+join", "3m1p rollback", "2m1p emptied+join"},
	"M14": {"2m2p A1 then A2, eager, busy", "2m2p join, eager"},
	"M15": {"4m1p two die at once", "3m1p two die at once"},
	"M16": {"2m3p one for another"},
	"M17": {"2m3p one for another", "2m2p partition added"},
	"M18": {"2m1p A1 then A2, busy", "3m1p crash"},
	"M19": {"3m2p hidden owner"},
	"M20": {"2m1p plan write unknown"},
	"M21": {"3m1p twins"},
	"M22": {"2m1p late+freeze", "2m1p late+repeated, split", "2m1p repeated", "2m1p lapse"},
	"M23": {"2m1p busy+hung, moved"},
	"M25": {"4m1p flapping"},
	"M26": {"3m1p cap and expiry at once"},
	"M27": {"2m1p long and short lease"},
	"M28": {"3m2p backup, deaf", "2m1p rollback+join", "3m1p rollback"},
	"M29": {"2m1p emptied+join", "2m1p emptied", "3m1p rollback"},
}
