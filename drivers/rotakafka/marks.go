package rotakafka

import (
	"sync"

	"github.com/rota-dev/rota"
)

// A mark is how far an owner has handled a topic's partition. An owner that attaches again
// under the same token goes on there, though it could not commit the offset: nobody else
// has owned the partition meanwhile.
type mark struct {
	topic [16]byte
	at    int64
}

// marks are those of the partitions of one source.
type marks struct {
	mu  sync.Mutex
	all map[string]ownedMark
}

type ownedMark struct {
	mark
	token   rota.Token
	session string
}

func (m *marks) put(own rota.Ownership, at mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]ownedMark{}
	}
	m.all[own.Partition()] = ownedMark{at, own.Token(), own.Session()}
}

func (m *marks) get(own rota.Ownership) (mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.all[own.Partition()]
	return at.mark, ok && at.token == own.Token() && at.session == own.Session()
}

func (m *marks) has(own rota.Ownership) bool {
	_, ok := m.get(own)
	return ok
}

func (m *marks) remove(own rota.Ownership) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, own.Partition())
}
