package rotatest

import (
	"testing"

	"github.com/rota-dev/rota"
)

// A Liar sends the watches of a store a forged change of key to revision rev, as far
// as the transport lets a client do that which may not write to the store.
type Liar func(t testing.TB, key string, value []byte, rev rota.Rev)

// WithLiar lets the suite forge changes. It is for stores whose watches get their
// changes as messages that other clients could send too.
func WithLiar(l Liar) StoreOption { return storeOption(func(t *storeTest) { t.lie = l }) }

// liarCases are for stores whose transport permits forged changes.
var liarCases = []storeCase{
	{"a lie on the wire is not believed", notBelieved},
}

// notBelieved forges changes of a key that exists, one that never did and one that was
// deleted. Watches show none of them and all later changes, and a store that is a
// Warner warns.
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
	w.has(there, "2", w.get(there).Rev)
}
