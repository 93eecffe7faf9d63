// Package rotazk keeps a group's records in ZooKeeper.
//
// What it does not promise: ZooKeeper's sync asks the leader, and a leader that was
// deposed answers until it notices. A read can therefore show an older version for as
// long as the servers take to notice, which ends sessions for nothing and makes no
// second owner. A server with forceSync=no acknowledges what is not on disk, and no
// client can see that setting: leave it as it is.
//
// A URL says what to connect to and how: docs/stores/zookeeper.md lists its parameters.
// A Store connects when it is first used.
package rotazk
