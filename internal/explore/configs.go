// Package explore tries everything that can happen to a small group: the real
// core in discrete time, every order of events, every place for a fault.
package explore

func two() []Member   { return make([]Member, 2) }
func three() []Member { return make([]Member, 3) }

// Configs are the configurations with a name, the quick ones first.
var Configs = []*Config{
	{Name: "2m1p lost", Members: two(), Parts: []string{"p"}, Faults: map[Fault]uint8{LoseRequest: 1, LoseAnswer: 1}},
	{Name: "2m1p crash+freeze", Members: two(), Parts: []string{"p"}, Faults: map[Fault]uint8{Crash: 1, Freeze: 1}},
	{Name: "2m1p late", Members: two(), Parts: []string{"p"}, Faults: map[Fault]uint8{Late: 1, Crash: 1}},
	{Name: "2m1p busy+leave", Members: two(), Parts: []string{"p"}, Faults: map[Fault]uint8{Busy: 1, Leave: 1, Crash: 1}},
	{Name: "2m1p effect", Members: two(), Parts: []string{"p"}, Faults: map[Fault]uint8{Effect: 2, Freeze: 1}},
	{Name: "2m1p rollback", Members: two(), Parts: []string{"p"}, Faults: map[Fault]uint8{Rollback: 1, Freeze: 1}},
	{Name: "2m1p begin prompt", Members: two(), Parts: []string{"p"}, Begin: true, Prompt: Sources | Reads},
	{Name: "2m1p begin", Members: two(), Parts: []string{"p"}, Begin: true, Prompt: Sources},
	{Name: "3m1p crash", Members: three(), Parts: []string{"p"}, Faults: map[Fault]uint8{Crash: 1}, Prompt: Sources | Reads},
	{Name: "3m1p join", Members: []Member{{}, {}, {Joins: true}}, Parts: []string{"p"}, Faults: map[Fault]uint8{Crash: 1}, Prompt: Sources | Reads},
}
