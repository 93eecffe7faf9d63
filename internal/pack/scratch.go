package pack

// scratch packs all that may move anew, best fit decreasing: heaviest first, each
// into the bin that it fills best. It comes
// close to the fewest members there can be, and moves a lot. A new bin is the home
// of the first that needs it.
func (k *Packer) scratch() {
	for _, i := range k.loose {
		if k.at[i] != none {
			k.take(i)
		}
	}
	for _, i := range k.loose {
		m := k.tightest(i, none, none)
		if m == none {
			m = k.open(i)
		}
		k.put(i, m)
	}
}
