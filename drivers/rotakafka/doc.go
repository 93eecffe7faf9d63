// Package rotakafka consumes Kafka topics whose partitions rota gives to members, instead
// of a Kafka consumer group.
//
// What it does not promise: a message that was handled and whose offset was not committed
// when its owner died is delivered again. Offsets are committed by time and number, and
// every= and window= in the URL say how many messages that can be at most. With fence=none a former
// owner that was stopped by a signal in the middle of a commit can set the offset back.
//
// A URL says what a Source connects to and how: docs/sources/kafka.md lists its
// parameters. A Source connects when it is first used.
package rotakafka
