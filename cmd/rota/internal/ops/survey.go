package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/internal/plain"
	"github.com/rota-dev/rota/internal/record"
)

// A survey is all that stands in the store under a group, readable or not. What
// mends a group rests on it; members and rota status leave out what they cannot
// read.
type survey struct {
	group   string
	at      time.Time // all was read by then
	all     []standing
	plan    *record.Plan
	roster  *record.Roster
	orders  *record.Orders
	members []*record.Member
}

// A standing is one record as it stands in the store.
type standing struct {
	key     string
	rev     rota.Rev
	size    int
	kind    recordKind
	session record.Session // of a member's record, also of one that cannot be read
	bad     error          // why it cannot be read
}

type recordKind int

const (
	unknownKind recordKind = iota // no record of rota's has this key
	planKind
	rosterKind
	ordersKind
	historyKind
	loadsKind
	memberKind
)

// surveyAll reads everything. The store is the caller's to close.
func surveyAll(ctx context.Context, t *connect.Target) (*survey, rota.Store, error) {
	store, err := t.Open()
	if err != nil {
		return nil, nil, err
	}
	s, err := surveyOf(ctx, store, t.Group)
	switch {
	case err != nil:
		err = cli.Unreachable(t.Store, err)
	case len(s.all) == 0:
		err = fmt.Errorf("there is no group called %q %s: nothing stands there", t.Group, inStore(t.Store))
	}
	if err != nil {
		store.Close()
		return nil, nil, err
	}
	return s, store, nil
}

func surveyOf(ctx context.Context, store rota.Store, group string) (*survey, error) {
	ctx, cancel := context.WithTimeout(ctx, connect.StoreTime)
	defer cancel()
	if err := connect.Reach(ctx, store, group); err != nil {
		return nil, err
	}
	s := &survey{group: group}
	for batch, err := range store.Watch(ctx, group+"/") {
		if err != nil {
			return nil, err
		}
		for _, e := range batch {
			if !e.Deleted {
				s.add(e)
			}
		}
		slices.SortFunc(s.all, func(a, b standing) int { return strings.Compare(a.key, b.key) })
		s.at = time.Now()
		return s, nil
	}
	return nil, errors.New("the watch ended before it began")
}

func (s *survey) add(e rota.Entry) {
	x := standing{key: e.Key, rev: e.Rev, size: len(e.Value)}
	switch name := strings.TrimPrefix(e.Key, s.group+"/"); name {
	case "plan":
		x.kind = planKind
		s.plan, x.bad = record.DecodePlan(e.Value)
	case "roster":
		x.kind = rosterKind
		s.roster, x.bad = record.DecodeRoster(e.Value)
	case "orders":
		x.kind = ordersKind
		s.orders, x.bad = record.DecodeOrders(e.Value)
	case "history":
		x.kind = historyKind
		_, x.bad = record.DecodeHistory(e.Value)
	case "loads":
		x.kind = loadsKind
		_, x.bad = record.DecodeLoads(e.Value)
	default:
		var ok bool
		if x.session, ok = sessionOf(name); ok {
			x.kind = memberKind
			var m *record.Member
			if m, x.bad = record.DecodeMember(e.Value); x.bad == nil && m.Session != x.session {
				x.bad = fmt.Errorf("it is the record of %v", m.Session)
			}
			if x.bad == nil {
				s.members = append(s.members, m)
			}
		}
	}
	s.all = append(s.all, x)
}

// sessionOf reads the session out of "member/SESSION".
func sessionOf(name string) (record.Session, bool) {
	hex, ok := strings.CutPrefix(name, "member/")
	v, err := strconv.ParseUint(hex, 16, 64)
	s := record.Session(v)
	return s, ok && err == nil && v != 0 && s.String() == hex
}

// find is what stands under a key of this kind, if anything does.
func (s *survey) find(kind recordKind) *standing {
	i := slices.IndexFunc(s.all, func(x standing) bool { return x.kind == kind })
	if i < 0 {
		return nil
	}
	return &s.all[i]
}

func (s *survey) record(session record.Session) *standing {
	i := slices.IndexFunc(s.all, func(x standing) bool { return x.kind == memberKind && x.session == session })
	if i < 0 {
		return nil
	}
	return &s.all[i]
}

func (s *survey) member(session record.Session) *record.Member {
	i := slices.IndexFunc(s.members, func(m *record.Member) bool { return m.Session == session })
	if i < 0 {
		return nil
	}
	return s.members[i]
}

// nameOf is what people call a member; its session if its record does not say.
func (s *survey) nameOf(session record.Session) string {
	if m := s.member(session); m != nil {
		return m.Name
	}
	return session.String()
}

// partition is the name of a row.
func (s *survey) partition(id int) string {
	if s.roster != nil && id < len(s.roster.Entries) {
		return s.roster.Entries[id].Name
	}
	return "#" + strconv.Itoa(id)
}

// rows are the partitions whose rows fit.
func (s *survey) rows(fit func(r *record.Row) bool) (names []string) {
	if s.plan == nil {
		return nil
	}
	for i := range s.plan.Rows {
		if fit(&s.plan.Rows[i]) {
			names = append(names, s.partition(i))
		}
	}
	return names
}

func (s *survey) ownedBy(session record.Session) []string {
	return s.rows(func(r *record.Row) bool { return r.Owner == session })
}

// planNames tells whether the plan speaks of a session: as a member, a leader or an
// owner. One that cannot be read might speak of anybody.
func planNames(p *record.Plan, session record.Session) bool {
	return p == nil || p.Leader == session || slices.Contains(p.Members, session) ||
		slices.ContainsFunc(p.Rows, func(r record.Row) bool { return r.Owner == session })
}

// live counts the members whose records say that they live.
func (s *survey) live() (n int) {
	for _, m := range s.members {
		if m.State == record.Live {
			n++
		}
	}
	return n
}

// longestLease is the longest of the leases that can be read.
func (s *survey) longestLease() (longest time.Duration) {
	for _, m := range s.members {
		longest = max(longest, m.Lease)
	}
	return longest
}

// addressable tells whether a store takes the key: others may have written keys
// that rota has no way to name.
func addressable(key string) bool {
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '/')
	}
	return len(key) <= 128 && !strings.Contains(key, "//") && !strings.HasSuffix(key, "/") && !strings.ContainsFunc(key, odd)
}

// some lists the first of many names, plainly.
func some(list []string) string {
	const most = 12
	if len(list) <= most {
		return strings.Join(plain.Texts(list), ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(plain.Texts(list[:most]), ", "), len(list)-most)
}
