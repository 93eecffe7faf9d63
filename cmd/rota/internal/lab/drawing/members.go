package drawing

import (
	"fmt"

	"github.com/rota-dev/rota/internal/core"
)

// Members shows what a group is made of: members that share the partitions of a source,
// agree by way of a store, and act on a sink under tokens.
func Members() string {
	c := newCanvas(880, 450, "Members of a group read the partitions of a source, one owner each, agree through records in a store, and pass a token to the sink with each effect")
	const top, height = 190, 236
	c.rect("box", 270, 22, 340, 98, 6)
	c.text("bold", left, 286, 45, "store")
	c.text("small soft", right, 596, 45, "NATS, etcd, ZooKeeper or Redis")
	for i, cell := range []string{"plan", "member c1", "member c2", "member c3"} {
		x := []float64{286, 346, 432, 518}[i]
		w := []float64{52, 78, 78, 78}[i]
		c.rect("paper", x, 60, w, 26, 4)
		c.text("small mono", middle, x+w/2, 77, cell)
	}
	c.text("small soft", middle, 440, 108, "records, written by compare-and-set")
	c.arrow(400, top, 400, 122)
	c.arrow(480, 120, 480, top-2)
	c.text("small soft", right, 390, 160, fmt.Sprintf("heartbeats, every %g s", core.DefaultTiming().Heartbeat.Seconds()))
	c.text("small soft", left, 490, 160, "the plan: who owns what")

	c.rect("box", 24, top, 196, height, 6)
	c.text("bold", left, 40, top+24, "source")
	c.rect("room", 310, top, 260, height, 6)
	c.text("bold", left, 326, top+24, "group")
	c.rect("box", 674, top, 182, height, 6)
	c.text("bold", left, 690, top+24, "your sink")
	for i, m := range []struct {
		class, name, role string
		tokens            [2]int
	}{{"a", "c1", "leads", [2]int{4, 4}}, {"b", "c2", "", [2]int{7, 4}}, {"c", "c3", "", [2]int{9, 2}}} {
		y := float64(top + 36 + 64*i)
		c.rect(m.class, 330, y, 220, 54, 6)
		c.text("on bold", left, 344, y+22, m.name)
		c.text("on small", right, 538, y+22, m.role)
		c.text("on small", left, 344, y+42, fmt.Sprintf("runs q%d and q%d, your handler", 2*i, 2*i+1))
		for j := range 2 {
			q := y + 4 + 25*float64(j)
			c.rect(m.class, 40, q, 164, 21, 4)
			c.text("on small mono", left, 50, q+15, fmt.Sprintf("q%d", 2*i+j))
			for k := range 5 - (i+j)%3 {
				c.rect("paper", 186-16*float64(k), q+5, 11, 11, 2)
			}
			c.arrow(206, q+10.5, 328, q+10.5)
		}
		c.arrow(552, y+27, 672, y+27)
		c.text("small soft", middle, 612, y+20, fmt.Sprintf("q%d, token %d", 2*i, m.tokens[0]))
	}
	c.text("small soft", middle, 122, top+height-8, "one owner per partition")
	for i, s := range []string{"refuses every token", "lower than one it has", "seen: a former owner", "comes too late"} {
		c.text("small soft", left, 690, float64(top+70+20*i), s)
	}
	return c.String()
}
