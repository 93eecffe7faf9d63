package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// columns are the encoded rows of a plan: a table of sessions (members in their
// order, then other sessions that rows name, ascending), the number of rows, and
// for each of
//
//	state        one byte: RowState in the low two bits, Reason above
//	owner        column: place in the table from 1, 0 for nobody
//	to           option: likewise
//	counter      column: of the token
//	older        option: the plan's incarnation minus the token's
//	rev          column
//
// one entry per row. The state byte is never left out, although it is often the
// same for all rows: so a plan has at most as many rows as bytes, and a short
// record cannot make a reader allocate a large table.
type columns struct {
	sessions    []Session // the table
	members     int       // how many of it are members
	incarnation uint32
	state       []byte
	owner       column
	to          option
	counter     column
	older       option
	rev         column
}

func (w *writer) rows(x *Plan) {
	others, place := tableOf(x)
	appendList(w, x.Members, (*writer).session)
	appendList(w, others, (*writer).session)
	w.count(len(x.Rows))
	if len(x.Rows) == 0 {
		return
	}
	for i := range x.Rows {
		w.byte(byte(x.Rows[i].State) | byte(x.Rows[i].Reason)<<2)
	}
	values := make([]uint64, len(x.Rows))
	fill := func(of func(*Row) uint64) []uint64 {
		for i := range x.Rows {
			values[i] = of(&x.Rows[i])
		}
		return values
	}
	w.column(fill(func(r *Row) uint64 { return place[r.Owner] }))
	w.option(fill(func(r *Row) uint64 { return place[r.To] }))
	w.column(fill(func(r *Row) uint64 { return uint64(r.Token.Counter()) }))
	w.option(fill(func(r *Row) uint64 { return uint64(x.Incarnation - r.Token.Incarnation()) }))
	w.column(fill(func(r *Row) uint64 { return r.Rev }))
}

// tableOf returns the sessions that only rows name, and the place of each session
// in the table; the place of nobody is 0.
func tableOf(x *Plan) (others []Session, place map[Session]uint64) {
	place = make(map[Session]uint64, len(x.Members)+1)
	place[0] = 0
	for i, s := range x.Members {
		place[s] = uint64(i) + 1
	}
	for i := range x.Rows {
		for _, s := range [...]Session{x.Rows[i].Owner, x.Rows[i].To} {
			if _, known := place[s]; !known {
				place[s] = 0
				others = append(others, s)
			}
		}
	}
	slices.Sort(others)
	for i, s := range others {
		place[s] = uint64(len(x.Members)+i) + 1
	}
	return others, place
}

// columns reads the columns that writer.rows wrote. It gives them to p, with the
// members.
func (r *reader) columns(p *Plan) *columns {
	c := &columns{incarnation: p.Incarnation}
	members := r.bytes("members", 8*r.count("members", 8))
	others := r.bytes("other sessions", 8*r.count("other sessions", 8))
	c.members = len(members) / 8
	c.sessions = make([]Session, 0, c.members+len(others)/8)
	for _, part := range [...][]byte{members, others} {
		for ; len(part) > 0; part = part[8:] {
			c.sessions = append(c.sessions, Session(binary.LittleEndian.Uint64(part)))
		}
	}
	if c.members > 0 {
		p.Members = c.sessions[:c.members:c.members]
	}
	if n := r.count("rows", 1); n > 0 {
		p.cols = c
		r.b = bytes.Clone(r.b) // the columns alone: the sessions above are as long, and would stay beside their copy
		c.state = r.bytes("state", n)
		c.owner = r.column("owner", n, uint64(len(c.sessions)))
		c.to = r.option("to", n, uint64(len(c.sessions)))
		c.counter = r.column("counter", n, math.MaxUint32)
		c.older = r.option("older", n, uint64(p.Incarnation))
		c.rev = r.column("rev", n, p.Gen)
	}
	return c
}

// row decodes one row.
func (c *columns) row(i int) Row {
	r := c.plain(i)
	r.To = c.session(c.to.at(i))
	r.Token -= MakeToken(uint32(c.older.at(i)), 0)
	return r
}

// plain decodes a row without its option columns.
func (c *columns) plain(i int) Row {
	return Row{
		State:  RowState(c.state[i] & 3),
		Reason: Reason(c.state[i] >> 2),
		Owner:  c.session(c.owner.at(i)),
		Token:  MakeToken(c.incarnation, uint32(c.counter.at(i))),
		Rev:    c.rev.at(i),
	}
}

func (c *columns) rows() []Row {
	rows := make([]Row, len(c.state))
	for i := range rows {
		rows[i] = c.plain(i)
	}
	c.to.each(func(i int, v uint64) { rows[i].To = c.session(v) })
	c.older.each(func(i int, v uint64) { rows[i].Token -= MakeToken(uint32(v), 0) })
	return rows
}

func (c *columns) session(place uint64) Session {
	if place == 0 {
		return 0
	}
	return c.sessions[place-1]
}

// mine implements Plan.Mine. Of rows of other owners it reads the owner column
// only.
func (c *columns) mine(session Session, dst []OwnRow) []OwnRow {
	place := uint64(slices.Index(c.sessions, session) + 1)
	if place == 0 {
		return dst // it owns nothing, or is nobody
	}
	for i := c.owner.find(place, 0); i < len(c.state); i = c.owner.find(place, i+1) {
		dst = append(dst, OwnRow{ID(i), c.row(i)})
	}
	return dst
}

// check checks the table and the rows. It checks whole columns first; only if those
// leave a doubt does it check the rows one by one with checkRow.
func (c *columns) check(p *Plan) error {
	if err := c.checkTable(); err != nil {
		return err
	}
	if len(c.state) == 0 || c.sound() {
		return nil
	}
	for i := range c.state {
		r := c.row(i)
		if err := p.checkRow(&r); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	return nil
}

func (c *columns) checkTable() error {
	if err := unique(c.sessions); err != nil {
		return err
	}
	others := c.sessions[c.members:]
	if err := sorted("other sessions", others, func(s Session) Session { return s }); err != nil {
		return err
	}
	return c.checkNamed(others)
}

// checkNamed checks that each other session of the table is named by a row.
func (c *columns) checkNamed(others []Session) error {
	if len(others) == 0 {
		return nil
	}
	named := make([]bool, len(others))
	missing := len(others)
	for _, col := range [...]*column{&c.owner, &c.to.column} {
		for i := 0; i < col.rows && missing > 0; i++ {
			if v := int(col.at(i)) - c.members; v > 0 && !named[v-1] {
				named[v-1] = true
				missing--
			}
		}
	}
	if missing > 0 {
		return fmt.Errorf("other sessions: %v is in no row", others[slices.Index(named, false)])
	}
	return nil
}

// sound returns true only if checkRow accepts every row. The limits of the columns
// have already checked rev and incarnation.
func (c *columns) sound() bool {
	free, ok := c.states()
	return ok && c.zeros(&c.owner) == free && c.zeros(&c.counter) >= 0
}

// states counts the FREE rows and checks states and reasons, 8 rows at a time. In a
// state byte the two bits of the state must not both be set, nor the two higher
// ones of the reason's three bits, and the rest must be 0.
func (c *columns) states() (free int, ok bool) {
	const ones = 0x0101010101010101
	busy, bad := 0, uint64(0)
	look := func(v uint64) {
		bad |= v&(0xe0*ones) | v&(v>>1)&(0x09*ones)
		busy += bits.OnesCount64((v | v>>1) & ones)
	}
	d := c.state
	for ; len(d) >= 8; d = d[8:] {
		look(binary.LittleEndian.Uint64(d))
	}
	for _, s := range d {
		look(uint64(s))
	}
	return len(c.state) - busy, bad == 0
}

// zeros counts the rows that are zero in a column; -1 if one of them is not FREE.
func (c *columns) zeros(col *column) (n int) {
	if col.base > 0 {
		return 0
	}
	for i := col.find(0, 0); i < col.rows; i = col.find(0, i+1) {
		if RowState(c.state[i]&3) != Free {
			return -1
		}
		n++
	}
	return n
}
