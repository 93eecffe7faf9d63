package rotatest

import (
	"testing"

	"github.com/rota-dev/rota"
)

// A Liar tells those who watch a store that key has changed, which is not so: as
// far as the transport lets somebody do it who may not write to the store. rev is
// what the change pretends to be.
type Liar func(t testing.TB, key string, value []byte, rev rota.Rev)

// WithLiar lets the suite lie to watches. It is for stores whose watches hear of
// changes by something that others can send, too.
func WithLiar(l Liar) StoreOption { return func(t *storeTest) { t.lie = l } }

// liarCases are for stores whose transport permits lies.
var liarCases = []storeCase{
	{"a lie on the wire is not believed", notBelieved},
}

// notBelieved lies about a key that is there, one that is not and one that was
// deleted. Watches show none of it, what is written afterwards they show, and
// whoever can warn does.
func notBelieved(t *storeTest) {
	w, r := t.open(), t.open()
	there, never, gone := t.key("dir/there"), t.key("dir/never"), t.key("dir/gone")
	rev := w.put(there, "1", 0)
	w.delete(gone, w.put(gone, "1", 0))
	step := func(e rota.Entry) {
		if string(e.Value) == "a lie" {
			t.Errorf("a watch shows a lie about %s", e.Key)
		}
	}
	views := []*view{t.viewEach(r, t.key("dir/"), step), t.viewEach(r, there, step)}
	for _, key := range []string{there, never, gone} {
		t.lie(t.TB, key, []byte("a lie"), rev+1000)
	}
	rev = w.put(there, "2", rev)
	for _, v := range views {
		v.wait("a change after the lies", func() bool { return v.cells[there].Rev == rev })
	}
	if warner, ok := r.Store.(rota.Warner); ok {
		eventually(t, t.bound, "it warns of the lies", func() bool { return len(warner.Warnings()) > 0 })
	}
	t.lie(t.TB, there, []byte("a lie"), rev+1000)
	rev = w.put(never, "3", 0)
	views[0].wait("a new key that was lied about", func() bool { return views[0].cells[never].Rev == rev })
	w.holds(there, "2", w.get(there).Rev)
}
