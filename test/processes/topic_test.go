//go:build linux

package processes

import (
	"slices"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/record"
)

// Partitions come, go and come back under members at work. By order, where the broker
// never says that one is gone; and by its listing, where it does, beginning with none at
// all. What comes back has its ID and a higher token, and nothing is lost.
//
// RabbitMQ and Kafka list what they have. ActiveMQ tells nobody, and JetStream never forgets a
// subject: there members list a file, so that each store shows it.
func TestS1_Topic_ByProcesses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *host) {
		t.Run("by order", func(t *testing.T) { comeAndGoByOrder(newCrew(t, h, 6)) })
		t.Run("by listing", func(t *testing.T) {
			if h.broker.lists != nil {
				comeAndGoAtBroker(newCrew(t, h, 4))
			} else {
				comeAndGoByListing(newCrew(t, h, 0))
			}
		})
	})
}

func comeAndGoByOrder(c *crew) {
	c.join(false, "c1", "c2")
	c.parts = 7 // from now on messages are published to one more than members know of
	m := c.grind(20 * time.Millisecond)
	c.until("everything to run", func() bool { return c.running() == 6 })

	c.mustOrder("partitions", "add", c.partition(6))
	c.until("the new partition to be consumed", func() bool { return c.running() == 7 && c.sink.counts("")[c.partition(6)] > 0 })

	c.mu.Lock()
	id, token := c.id("q2"), c.tokens([]string{"c1", "c2"})["q2"]
	c.mu.Unlock()
	c.mustOrder("partitions", "remove", c.partition(2))
	c.until("the removed partition to stop", func() bool { return c.running() == 6 && c.tokens([]string{"c1", "c2"})["q2"] == 0 })
	before := c.sink.counts("")
	c.until("the others to go on", func() bool { return c.sink.counts("")[c.partition(3)] > before[c.partition(3)]+20 })
	if was, is := before[c.partition(2)], c.sink.counts("")[c.partition(2)]; was != is {
		c.Errorf("%d messages of a removed partition were handled", is-was)
	}

	c.mustOrder("partitions", "add", c.partition(2))
	c.until("it to come back", func() bool { return c.tokens([]string{"c1", "c2"})["q2"] > token && c.id("q2") == id })
	if err := m.finish(); err != nil {
		c.Error(err)
	}
	if err := c.judge(); err != nil {
		c.Error(err)
	}
}

func comeAndGoByListing(c *crew) {
	file := c.joinListed("c1", "c2")
	c.untilShown("waiting members", func(st *rota.Status) bool {
		return slices.ContainsFunc(st.Members, func(m rota.MemberInfo) bool {
			return slices.ContainsFunc(m.Conditions, func(x rota.ConditionInfo) bool { return x.Code == rota.ConditionNoPartitions })
		})
	})
	both := []string{"c1", "c2"}
	c.list(file, "a", "b", "c")
	c.until("all to run", func() bool { return c.running() == 3 })
	c.list(file, "a", "b", "c", "d")
	c.until("the new one to run", func() bool { return c.running() == 4 })
	c.mu.Lock()
	id, token := c.id("qb"), c.tokens(both)["qb"]
	c.mu.Unlock()
	c.list(file, "a", "c", "d")
	c.untilShown("the removal", func(st *rota.Status) bool { return c.seen(st, "qb").Reason == rota.ReasonRemoved })
	c.until("the removed one to be let go", func() bool { return c.running() == 3 && c.tokens(both)["qb"] == 0 })
	c.list(file, "a", "b", "c", "d")
	c.until("it to come back", func() bool { return c.running() == 4 && c.tokens(both)["qb"] > token && c.id("qb") == id })
	if err := c.judge(); err != nil {
		c.Error(err)
	}
}

// comeAndGoAtBroker makes partitions at the broker, removes one and makes it again, while
// messages are published to the others all the time.
func comeAndGoAtBroker(c *crew) {
	const it = 1
	c.find()
	c.tune = []string{"--list-every", listEvery.String()}
	c.join(false, "c1", "c2")
	c.untilShown("waiting members", func(st *rota.Status) bool {
		return slices.ContainsFunc(st.Members, func(m rota.MemberInfo) bool {
			return slices.ContainsFunc(m.Conditions, func(x rota.ConditionInfo) bool { return x.Code == rota.ConditionNoPartitions })
		})
	})
	m := c.grind(20 * time.Millisecond)
	c.until("what appeared to be consumed", func() bool { return c.running() == 4 && len(c.sink.counts("")) == 4 })

	m.rest(it) // what waits in it would be removed with it
	both := []string{"c1", "c2"}
	c.mu.Lock()
	id, token := c.id("q1"), c.tokens(both)["q1"]
	c.mu.Unlock()
	c.host.broker.remove(c, it)
	c.untilShown("the removal", func(st *rota.Status) bool { return c.seen(st, "q1").Reason == rota.ReasonRemoved })
	c.until("the removed one to be let go", func() bool { return c.running() == 3 && c.tokens(both)["q1"] == 0 })
	before := c.sink.counts("")
	c.until("the others to go on", func() bool {
		now := c.sink.counts("")
		return now[c.partition(0)] > before[c.partition(0)]+20 && now[c.partition(2)] > before[c.partition(2)]+20 && now[c.partition(3)] > before[c.partition(3)]+20
	})

	c.host.broker.create(c, it, it+1)
	m.each[it].Store(1)
	c.until("it to come back", func() bool { return c.running() == 4 && c.tokens(both)["q1"] > token && c.id("q1") == id })
	c.until("it to be consumed", func() bool { return c.sink.counts("")[c.partition(it)] > before[c.partition(it)]+20 })
	if err := m.finish(); err != nil {
		c.Error(err)
	}
	if err := c.judge(); err != nil {
		c.Error(err)
	}
}

// id is that of a partition in the roster, or -1. The crew's mutex is held.
func (c *crew) id(part string) int {
	if c.roster == nil {
		return -1
	}
	return slices.IndexFunc(c.roster.Entries, func(p record.Partition) bool { return c.part(p.Name) == part })
}

// mustOrder is order, for what cannot be refused.
func (c *crew) mustOrder(words ...string) {
	c.Helper()
	if err := c.order(words...); err != nil {
		c.Fatal(err)
	}
}
