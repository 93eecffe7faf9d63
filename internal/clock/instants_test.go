package clock

import (
	"sync"
	"testing"
	"time"
)

// The clock of event lines keeps order and agrees with the machine's, however
// often the process is put aside.
func TestBootTimesKeepOrder(t *testing.T) {
	var c Instants
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var last time.Duration
			for range 20000 {
				floor := Boot()
				now := time.Now()
				ceiling := Boot()
				got := c.Boot(now)
				if got < last || got < floor-100*time.Microsecond || got > ceiling+100*time.Microsecond {
					t.Errorf("%v after %v, between %v and %v", got, last, floor, ceiling)
					return
				}
				last = got - 100*time.Microsecond
			}
		})
	}
	wg.Wait()
}
