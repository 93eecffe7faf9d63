package demo

import (
	"slices"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/screen"
)

// A Pose is a group at one moment, for a picture that is the same each time. Its
// members' process ids belong to no process: those above 4194304, which is the most
// that Linux gives.
type Pose struct {
	Status     *rota.Status
	Now, Began time.Time
	Gone       []string           // members whose processes have ended
	Rates      map[string]float64 // messages per second, by member
	Story      []StoryLine
}

// StoryLine is a line of the story.
type StoryLine struct {
	At   time.Time
	Text string
}

// Frame is what rota up would write to a terminal with colours.
func (p *Pose) Frame(width, height int) string {
	v := &live{f: newUpFlags(), at: "rota-data/rota.sock", me: "rota", sup: &supervisor{}, screen: true, began: p.Began,
		names: map[string]string{}, work: map[string]*pace{}, shown: map[string]rota.MemberState{}, st: p.Status}
	v.f.dir = "rota-data"
	for _, m := range p.Status.Members {
		v.sup.children = append(v.sup.children, &child{name: m.Name, pid: m.PID, over: slices.Contains(p.Gone, m.Name)})
		if rate, known := p.Rates[m.Name]; known {
			v.work[m.Name] = &pace{at: p.Now, rate: rate}
		}
	}
	for _, l := range p.Story {
		v.print(l.At, l.Text)
	}
	return screen.Redraw(v.picture(p.Now).lines(width, height), true)
}
