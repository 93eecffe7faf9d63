package rotaetcd

import (
	"crypto/tls"

	"github.com/rota-dev/rota"
)

// NodeOf returns the node that the calls of a store go to first.
func NodeOf(s rota.Store) string { return s.(*store).currentTurn().node.addr }

// TokenOf returns the token that this node has given.
func TokenOf(s rota.Store) string {
	n := s.(*store).currentTurn().node
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.token
}

// TLSOf returns the TLS settings of a URL.
func TLSOf(url string) (*tls.Config, error) {
	s, err := read(url, nil)
	if err != nil {
		return nil, err
	}
	return s.TLSConfig()
}
