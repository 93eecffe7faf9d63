package pack

// A puzzle is to pack two or three bins with few partitions in the best way, by
// trying all of them.
type puzzle struct {
	bins  [3]int32
	sides int // how many bins
	parts [pieces]int32
	size  int // how many partitions, heaviest first

	weight [pieces]int64
	fee    [pieces][3]int64  // what it costs to have it in that bin; far if it must not be there
	rest   [pieces + 1]int64 // what it costs at least to place all from here on
	price  int64             // of using a bin
	room   [3]int64
	slots  [3]int32 // how many more partitions each bin may have
	count  [3]int32

	cost  int64  // of the best way so far
	rough uint64 // how unevenly it leaves the room
	way   [pieces]int8
	best  [pieces]int8
	found bool
	turns int // that are left
}

// pieces is the largest puzzle. It has 3¹⁰ ways, of which a few hundred are tried.
const pieces = 10

// place tries all ways to place partitions n and on.
func (z *puzzle) place(n int, cost int64) {
	if cost+z.rest[n] > z.cost || z.turns == 0 {
		return
	}
	z.turns--
	if n == z.size {
		if rough := z.roughness(); cost < z.cost || rough < z.rough {
			z.cost, z.rough, z.best, z.found = cost, rough, z.way, true
		}
		return
	}
	w := z.weight[n]
	for s := range z.sides {
		fee := z.fee[n][s]
		if w > z.room[s] || z.slots[s] == 0 || fee == far {
			continue
		}
		if z.count[s] == 0 {
			fee += z.price
		}
		z.room[s] -= w
		z.slots[s]--
		z.count[s]++
		z.way[n] = int8(s)
		z.place(n+1, cost+fee)
		z.room[s] += w
		z.slots[s]++
		z.count[s]--
	}
}

func (z *puzzle) roughness() (sum uint64) {
	for _, r := range z.room[:z.sides] {
		r >>= 16 // squares of the largest fit
		sum += uint64(r * r)
	}
	return sum
}

// set lays out a puzzle of these bins, and reports whether it is one.
func (k *Packer) set(bins ...int32) bool {
	z := &k.puzzle
	z.sides, z.size = len(bins), 0
	z.price = k.price
	for s, m := range bins {
		b := &k.bins[m]
		z.bins[s] = m
		if b.load > b.cap || z.size+int(b.count-b.fixed) > pieces {
			return false
		}
		z.room[s], z.count[s], z.slots[s] = b.cap-b.load, b.fixed, max(0, b.limit-b.fixed)
		for i := b.first; i != none; i = k.next[i] {
			z.room[s] += k.weight[i]
			n := z.size
			for ; n > 0 && k.weight[z.parts[n-1]] < k.weight[i]; n-- {
				z.parts[n] = z.parts[n-1]
			}
			z.parts[n] = i
			z.size++
		}
	}
	z.rest[z.size] = 0
	for n := z.size - 1; n >= 0; n-- {
		i, least := z.parts[n], int64(far)
		for s, m := range bins {
			fee := int64(0)
			switch {
			case m == k.home[i]:
			case k.parts[i].Avoids(m):
				fee = far
			case k.home[i] != none:
				fee = k.cost(i)
			}
			z.fee[n][s] = fee
			least = min(least, fee)
		}
		z.weight[n] = k.weight[i]
		z.rest[n] = z.rest[n+1] + least
	}
	return true
}

// solve repacks these bins if there is a better way to, and reports whether it
// is. One that costs the same but leaves the room more even is taken too.
func (k *Packer) solve(bins ...int32) bool {
	if !k.set(bins...) {
		return false
	}
	z := &k.puzzle
	moved, used := int64(0), 0
	for n := range z.size {
		i := z.parts[n]
		if k.home[i] != none && k.home[i] != k.at[i] {
			moved += k.cost(i)
		}
	}
	z.rough = 0
	for _, m := range bins {
		if k.bins[m].count > 0 {
			used++
		}
		r := k.bins[m].room() >> 16
		z.rough += uint64(r * r)
	}
	old := moved + int64(used)*k.price
	for s := range bins {
		if z.count[s] > 0 {
			old -= k.price // stays in use whatever is done
		}
	}
	z.cost, z.found, z.turns = old, false, turns
	z.place(0, 0)
	if !z.found || !k.affordable(moved) {
		return false
	}
	for n := range z.size {
		k.take(z.parts[n])
	}
	for n := z.size - 1; n >= 0; n-- {
		k.put(z.parts[n], z.bins[z.best[n]])
	}
	return z.cost < old
}

// turns is how long one puzzle may take.
const turns = 100

// affordable reports whether the solution keeps to the budget.
func (k *Packer) affordable(moved int64) bool {
	z := &k.puzzle
	then := k.moved - moved
	for n := range z.size {
		then += z.fee[n][z.best[n]]
	}
	return then <= max(k.moved, k.most)
}

// bringHome undoes moves. For each partition that is away from home, heaviest
// first, it repacks the bin that it is in, the one it came from and perhaps a
// third, in the best way there is. Members with many partitions are left alone:
// there nearly everything fits nearly everywhere, and little is moved in vain.
func (k *Packer) bringHome() {
	left := puzzles
	for range 3 {
		better := false
		for _, x := range k.loose {
			h := k.home[x]
			if h == none || h == k.at[x] || k.bins[h].count == 0 {
				continue
			}
			if left <= 0 {
				return
			}
			left--
			if k.solve(k.at[x], h) {
				better = true
				continue
			}
			for _, t := range k.thirds(x) {
				if t == k.at[x] || h == k.at[x] {
					break // for the sake of evenness
				}
				left--
				if k.solve(k.at[x], h, t) {
					better = true
					break
				}
			}
		}
		if !better {
			return
		}
	}
}

const thirds = 12 // bins looked at to help one partition home

// puzzles is how many are set for one plan at most.
const puzzles = 2000

// thirds finds bins that may help partition x to go home: where what is there or
// beside x came from, what suits one that would have to leave x's home, and where
// something that was moved could change places with it.
func (k *Packer) thirds(x int32) []int32 {
	from, h := k.at[x], k.home[x]
	t := k.third[:0]
	add := func(m int32) {
		if m == none || m == from || m == h || len(t) == cap(t) || k.bins[m].count == 0 {
			return
		}
		for _, o := range t {
			if o == m {
				return
			}
		}
		t = append(t, m)
	}
	for _, m := range [2]int32{h, from} {
		for y := k.bins[m].first; y != none; y = k.next[y] {
			add(k.home[y])
		}
	}
	most := k.weight[x] + k.bins[from].room()
	start := k.lighter(most)
	for y := k.bins[h].first; y != none; y = k.next[y] {
		add(k.tightest(y, from, h))
		for n := start; n < len(k.loose) && n < start+60; n++ {
			j := k.loose[n]
			z := k.at[j]
			if z != k.home[j] && k.weight[y] <= k.bins[z].room()+k.weight[j] {
				add(z)
			}
		}
	}
	return t
}

// lighter finds the first loose partition that weighs no more than w.
func (k *Packer) lighter(w int64) int {
	low, high := 0, len(k.loose)
	for low < high {
		mid := (low + high) / 2
		if k.weight[k.loose[mid]] > w {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
