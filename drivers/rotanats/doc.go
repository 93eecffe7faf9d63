// Package rotanats keeps a group's records in NATS and consumes JetStream streams.
// Package embedded brings NATS along where there is none.
//
// What it does not promise: a NATS server syncs to disk every two minutes unless
// configured otherwise, and no client can see its setting. A store is therefore of
// class C, where a failover may lose acknowledged writes, until sync=always in the
// URL vouches for the server. After a kill NATS takes 4 to 9 seconds to elect a new
// leader of a replicated stream: with the default lease of 5 s, leases of the group
// lapse meanwhile.
//
//	Store   a group's records in a bucket of a NATS server or cluster
//	Source  the subjects of a JetStream stream as partitions
//	Connect a plain connection, for example to publish
//
// A URL says what each of them connects to and how: docs/stores/nats.md and
// docs/sources/jetstream.md list its parameters. A Store and a Source connect when
// they are first used.
package rotanats
