// Package rotarabbit consumes queues of RabbitMQ: each queue is a partition.
//
// What it does not promise: RabbitMQ keeps no position of a reader, so a message that was
// handled but not settled when its owner died is redelivered, and so are those that a
// broker had not stored as settled when it was killed. A queue has one group of readers.
// Order within a queue is kept by the broker's own rules, which differ by the type of the
// queue: an exclusive consumer on classic queues, a single active consumer on quorum queues,
// which ignore the other. A queue that has neither is refused.
//
// A URL says what a Source connects to and how: docs/sources/rabbitmq.md lists its
// parameters. A Source connects when it is first used.
package rotarabbit
