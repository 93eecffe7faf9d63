package rotarabbit

import "github.com/rota-dev/rota"

// Early tells whether a source has a channel for a queue that it does not consume yet.
func Early(src rota.Source, queue string) bool {
	s := src.(*source)
	s.mu.Lock()
	e := s.early[queue]
	s.mu.Unlock()
	if e == nil {
		return false
	}
	<-e.done
	return e.ch != nil && !e.ch.IsClosed()
}
