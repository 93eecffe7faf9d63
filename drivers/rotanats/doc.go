// Package rotanats keeps a group's records in NATS, brings NATS along where
// there is none, and consumes JetStream streams.
//
// What it does not promise: a NATS server syncs to disk every two minutes unless
// told otherwise, and nobody but its operator can know which; so a store is of
// class C, where a failover may lose acknowledged writes, until [SyncAlways]
// vouches for the server. A new leader of a replicated stream takes NATS 4 to 9
// seconds after a kill: with the default lease of 5 s a group pauses meanwhile.
//
//	Store   a group's records in a bucket of a NATS server or cluster
//	Embed   the same, on a server that the processes of one host share, in a folder
//	Source  the subjects of a JetStream stream as partitions
//	Serve   the embedded server alone, for others to connect to
//
// Nothing here dials before it is used.
package rotanats
