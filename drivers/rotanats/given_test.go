package rotanats

import "testing"

// TestWhatWasGivenBackMustFitTheNote compares a note with what the broker says of the
// consumer. A note that speaks of other deliveries is not believed: messages would be
// skipped, or handled again.
func TestWhatWasGivenBackMustFitTheNote(t *testing.T) {
	at := func(delivered, floor uint64) *consumerInfo {
		return &consumerInfo{Delivered: pair{delivered, 10 * delivered}, AckFloor: pair{floor, 10 * floor}}
	}
	for _, c := range []struct {
		what string
		next uint64
		info *consumerInfo
		fits bool
	}{
		{"what the broker says", 8, at(12, 7), true},
		{"nothing was given back", 8, at(7, 7), true},
		{"more was settled than the note says", 8, at(12, 9), false},
		{"less was settled than the note says", 8, at(12, 5), false},
		{"more is unsettled than can be read back", 8, at(8+maxStray, 7), false},
		{"there is no such consumer", 8, nil, false},
	} {
		n := note{Next: c.next, Back: true}
		last, fits := n.given(c.info)
		if fits != c.fits || fits && last != c.info.Delivered {
			t.Errorf("%s: %v, %v, want %v", c.what, last, fits, c.fits)
		}
	}
}
