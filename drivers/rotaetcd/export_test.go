package rotaetcd

import "github.com/rota-dev/rota"

// NodeOf returns the node that the calls of a store go to first.
func NodeOf(s rota.Store) string {
	t := s.(*store).currentTurn()
	if t == nil {
		return ""
	}
	return t.node.addr
}
