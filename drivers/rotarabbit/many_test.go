package rotarabbit_test

import "testing"

// TestManyPartitions lets one member consume 200 queues by one connection, and leave them.
// BenchmarkManyPartitions does so with 1000.
func TestManyPartitions(t *testing.T) {
	t.Parallel()
	many(t, rabbit.Server(t), "classic", 200)
}
