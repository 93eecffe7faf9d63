//go:build mutants

package rule

// CanTake tells whether this build can take rules out.
const CanTake = true

var taken [len(Book)]bool

// Off tells whether the rule is taken out.
func (r Rule) Off() bool { return taken[r] }

// Take takes a rule out until undo is called. The switches are global: not for
// tests that run in parallel.
func Take(r Rule) (undo func(), ok bool) {
	taken[r] = r != None
	return func() { taken[r] = false }, true
}
