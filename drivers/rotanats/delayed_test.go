package rotanats

import "testing"

// A consumer delivers nothing while as many messages are unacknowledged as it permits. What
// is fetched and what is delayed must leave room, whatever the prefetch.
func TestDelayedAcknowledgementsLeaveRoom(t *testing.T) {
	for prefetch := 1; prefetch <= 1024; prefetch++ {
		if most := prefetch + mostDelayed(prefetch); most >= pending(prefetch) {
			t.Fatalf("prefetch %d: %d may be unacknowledged, and %d are permitted", prefetch, most, pending(prefetch))
		}
	}
	if mostDelayed(256) != maxBatch {
		t.Errorf("with the default prefetch %d are acknowledged together, want %d", mostDelayed(256), maxBatch)
	}
}
