// Package rotaredis keeps a group's records in Redis: a server, a master that Sentinels
// watch, or a Cluster.
//
// What it does not promise: Redis replicates after it has acknowledged, so a failover may
// lose acknowledged writes. With Sentinel, in a Cluster, or with a replica a store is of
// class C, where only a sink that checks tokens keeps one owner during a failover. A
// single server without replicas that syncs every write (appendfsync always) is of class
// B. The class is learnt from the server.
//
// A URL says what a Store connects to and how: docs/stores/redis.md lists its
// parameters. A Store connects when it is first used.
package rotaredis
