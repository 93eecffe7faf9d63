// Package rotaetcd keeps a group's records in etcd.
//
// What it does not promise: an etcd that was restored from an older copy of its data
// looks like the one before, down to the ids of cluster and members and the raft term.
// The Store therefore names no server (it is no rota.Identifier), and members notice the
// loss by their own heartbeats.
//
// A URL says which nodes a Store connects to and how: docs/stores/etcd.md lists its
// parameters. It connects when it is first used.
package rotaetcd
