// Package rotanats keeps a group's records in NATS and consumes JetStream streams.
// Package embedded brings NATS along where there is none.
//
// What it does not promise: a NATS server syncs to disk every two minutes unless
// told otherwise, and nobody but its operator can know which; so a store is of
// class C, where a failover may lose acknowledged writes, until sync=always in the
// URL vouches for the server. A new leader of a replicated stream takes NATS 4 to 9
// seconds after a kill: with the default lease of 5 s a group pauses meanwhile.
//
//	Store   a group's records in a bucket of a NATS server or cluster
//	Source  the subjects of a JetStream stream as partitions
//	Connect a plain connection, to publish, say
//
// All are told by a URL what they connect to and how: docs/stores/nats.md and
// docs/sources/jetstream.md have its parameters. Nothing here dials before it is used.
package rotanats
