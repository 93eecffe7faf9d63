package plan

// A Load is what a partition asks of whoever owns it.
type Load struct {
	Speed   float64 // how much arrives per second
	Backlog float64 // how much waits already
	Cooling bool    // moved a short while ago: only overload moves it again
}

// Packing is what Pack is told besides members and partitions. Speeds and
// capacities are in one unit: messages per second, bytes per second, anything.
type Packing struct {
	Loads    []Load  // of each partition
	Capacity float64 // how much a member without a Capacity of its own is to be given
	Trigger  float64 // how many times its capacity a member may be given before it counts as overloaded: 1 and above; 0 means 1
	CatchUp  float64 // seconds in which a backlog is to be worked off; 0 means that it does not count
	Price    float64 // what one member fewer is worth, in members' capacities moved; 0 means DefaultPrice
	Budget   float64 // most that may move for the sake of fewer members, in members' capacities; 0 means no limit
	Band     float64 // share of the members in use that must be saved before any move is made for it; 0: every one counts
}

// Packed is what Pack says besides who is to own what.
type Packed struct {
	Used     int     // members that the plan gives something to
	Wanted   int     // members that the load needs: more than there are if some are overloaded
	Why      string  // why so many are wanted, in words
	Moves    int     // partitions that have an owner and do not stay there
	Moved    float64 // what these carry, in members' capacities
	Oversize []int32 // partitions that ask for more than any whole member has; each is alone on one
	Over     []int32 // members that the plan leaves overloaded
}

// DefaultPrice is the price unless told otherwise.
const DefaultPrice = 2

// Pack uses few members and moves little: see Planner.Pack.
func Pack(members []Member, parts []Partition, how Packing, dst []int32) ([]int32, Packed) {
	return new(Planner).Pack(members, parts, how, dst)
}

// Pack gives as few members as possible as much as they can take, and moves as
// little as possible for it.
func (p *Planner) Pack(members []Member, parts []Partition, how Packing, dst []int32) ([]int32, Packed) {
	return p.Spread(members, parts, dst), Packed{}
}
