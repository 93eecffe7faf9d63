package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// A burst is what the test of the row S0-11 writes about one, with ROTA_BURST_REPORT.
type burst struct {
	Store   string  `json:"store"`
	What    string  `json:"what"`
	Members int     `json:"members"`
	Took    float64 `json:"took"`
	First   float64 `json:"first"`
	Last    float64 `json:"last"`
	Plan    float64 `json:"plan"`
	Plans   int     `json:"plans"`
	Memory  float64 `json:"memory"`
	Peak    float64 `json:"peak"`
}

const burstsFile = "bursts.jsonl"

// readBursts reads what make burst has left in a folder, if it has.
func readBursts(dir fs.FS) (all []burst, err error) {
	f, err := dir.Open(burstsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var b burst
		switch err := d.Decode(&b); {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", burstsFile, err)
		}
		all = append(all, b)
	}
}

// writeBursts tells of a thousand members, by phases: what all of them wait for is told
// apart from what rota takes.
func writeBursts(p func(string, ...any), all []burst) {
	if len(all) == 0 {
		return
	}
	var memory []string
	p("## A thousand members\n")
	p("`make burst RUNS=N`: members are goroutines of ten processes, each with a connection of its")
	p("own to a server that syncs every record to disk, and they share 1024 partitions. Medians of")
	p("seconds from when they were let go, and the worst time in all:\n")
	p("| store | burst | members afterwards | runs | first record | last record | plan | all run | worst | plans, most |")
	p("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
	for len(all) > 0 {
		of := only(all, func(b burst) bool { return b.Store == all[0].Store && b.What == all[0].What })
		mid := func(get func(burst) float64) float64 { return medianOf(of, get) }
		worst, plans := 0.0, 0
		for _, b := range of {
			worst, plans = max(worst, b.Took), max(plans, b.Plans)
		}
		p("| %s | %s | %d | %d | %.2f | %.2f | %.2f | %.2f | %.2f | %d |", of[0].Store, of[0].What, of[0].Members, len(of),
			mid(func(b burst) float64 { return b.First }), mid(func(b burst) float64 { return b.Last }), mid(func(b burst) float64 { return b.Plan }),
			mid(func(b burst) float64 { return b.Took }), worst, plans)
		if of[0].Memory > 0 {
			memory = append(memory, fmt.Sprintf("%s %.2f MB, %.2f at the peak with those pages counted for each", of[0].Store, mid(func(b burst) float64 { return b.Memory }), mid(func(b burst) float64 { return b.Peak })))
		}
		all = only(all, func(b burst) bool { return b.Store != of[0].Store || b.What != of[0].What })
	}
	p("\nResident memory per member after the second burst, pages that processes share counted once,")
	p("and what a process takes without members not counted, in the median: %s. Where time and memory go: [bursts.md](bursts.md).\n", strings.Join(memory, "; "))
}

func only(all []burst, keep func(burst) bool) []burst {
	return slices.DeleteFunc(slices.Clone(all), func(b burst) bool { return !keep(b) })
}

func medianOf(all []burst, get func(burst) float64) float64 {
	var xs []float64
	for _, b := range all {
		xs = append(xs, get(b))
	}
	slices.Sort(xs)
	return xs[len(xs)/2]
}
