package rotatest

import "testing"

func TestMemSource(t *testing.T) {
	t.Parallel()
	Source(t, func(*testing.T) Broker { return memBroker{NewMemSource(32, "q0", "q1", "q2")} })
}
