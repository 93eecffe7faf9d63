package rotazk

import (
	"testing"

	"github.com/rota-dev/rota"
)

// A node that was gone is not listened to, unless it is being read: the server reports the
// next change of what that read finds, and reports it once.
func TestWhatIsBeingReadIsHeard(t *testing.T) {
	for _, reading := range []bool{true, false} {
		c := &conn{watches: map[string]map[*watch]bool{}, reports: newInterests()}
		w := &watch{c: c, prefix: "g/", root: "/g", shown: map[string]rota.Rev{"/g/k": 1}, heard: map[string]bool{},
			dirty: map[string]bool{}, reading: map[string]bool{}, wake: make(chan struct{}, 1)}
		w.hear("/g/k")
		if reading {
			w.reading["/g/k"] = true
		}
		if batch := w.gone("/g/k"); len(batch) != 1 || !batch[0].Deleted {
			t.Errorf("being read: %v: the caller is told %v, want a deletion", reading, batch)
		}
		c.changed("/g/k")
		if w.dirty["/g/k"] != reading {
			t.Errorf("being read: %v: the next change is heard: %v", reading, w.dirty["/g/k"])
		}
	}
}
