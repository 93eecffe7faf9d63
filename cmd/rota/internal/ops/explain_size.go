package ops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/internal/plain"
)

// An explainedMember is what explain prints of a member as JSON. It does not embed the
// member, which has a MarshalJSON of its own that would leave out the rest.
type explainedMember struct {
	Member *rota.MemberInfo `json:"member"`
	Says   string           `json:"says"` // for people
}

// findMember finds the live member with a name; nil if there is none.
func findMember(st *rota.Status, name string) *rota.MemberInfo {
	i := slices.IndexFunc(st.Members, func(m rota.MemberInfo) bool { return m.Name == name && m.State == rota.MemberLive })
	if i < 0 {
		return nil
	}
	return &st.Members[i]
}

// explainMember tells what a live member does, and whether it is to go.
func explainMember(st *rota.Status, m *rota.MemberInfo, now time.Time) string {
	st, m = plain.Copy(st), plain.Copy(m)
	text := fmt.Sprintf("%s is a member and owns %s", m.Name, cli.Count(m.Partitions, "partition"))
	if m.Session == st.Leader {
		text = fmt.Sprintf("%s leads the group and owns %s", m.Name, cli.Count(m.Partitions, "partition"))
	}
	if st.Load != nil {
		text += ", a load of " + loadOf(m)
	}
	out := []string{text + "."}
	if slices.Contains(st.Orders.Drains, m.Name) {
		out = append(out, "It is drained by order, so it is given nothing. It stays until the order ends.")
	}
	for _, c := range m.Conditions {
		out = append(out, fmt.Sprintf("%s says: %s.", m.Name, c.Text))
	}
	return strings.Join(append(out, sizeStory(st, now)...), "\n") + "\n"
}

// sizeStory says how many members are wanted and why, who is to go, and what the scaler
// last answered.
func sizeStory(st *rota.Status, now time.Time) []string {
	s := st.Size
	if s == nil {
		return nil
	}
	why := ""
	if st.Load != nil && st.Load.Needs != "" {
		why = ", with the spare ones and within the limits, for " + st.Load.Needs
	}
	out := []string{fmt.Sprintf("The group has %s and wants %d%s.", cli.Count(s.Have, "member"), s.Wanted, why)}
	for _, name := range s.Going {
		out = append(out, goingWords(st, name))
	}
	if s.Asked.IsZero() {
		return append(out, "No call to the scaler is on record.")
	}
	return append(out, fmt.Sprintf("The scaler was last asked %s (%s) and said: %s.", cli.Ago(now.Sub(s.Asked)), s.Asked.Format(time.TimeOnly), strings.TrimSuffix(cmp.Or(s.Answer, "all is well"), ".")))
}

// goingWords say why a chosen member is still there.
func goingWords(st *rota.Status, name string) string {
	text := fmt.Sprintf("%s is to go, since the others are enough and it cost least to empty, or the platform removes it first: it is given nothing.", name)
	switch m := findMember(st, name); {
	case m == nil:
		return text
	case m.Partitions > 0:
		return fmt.Sprintf("%s It still owns %s, handed over first; then the scaler is asked to remove it.", text, cli.Count(m.Partitions, "partition"))
	}
	return text + " It owns nothing: the scaler is asked to remove it."
}
