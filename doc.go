// Package rota keeps a duty roster for queues: the members of a group share the
// partitions of a source, at every moment at most one member may act on a partition,
// and no partition is idle for longer than it must be. The exact promise is that a
// partition is granted only after its former owner has stopped, or after that owner's
// lease has expired on a clock that also counts suspend. It is not a promise about
// effects: a process that is stopped in the middle of an effect (SIGSTOP, a paused
// virtual machine) can still finish that effect when it wakes, and only a sink that
// checks the token can refuse it. With such a sink no effect of a former owner is ever
// accepted.
//
// A handler that is still running when its member's lease expires would break the
// promise, and a context cannot force it to return. The member then calls
// Config.Abort, which by default prints the reason and exits with status 4.
//
// A program makes a [Member] from a [Store], where the members of the group meet, a
// [Source] of partitions, and a handler, and runs it:
//
//	m, err := rota.New(rota.Config{Group: "orders", Store: store, Source: source, Handle: handle})
//	…
//	err = m.Run(ctx) // joins and consumes; when ctx ends it hands over and leaves
//
// Ownership is a function call: the member owns a partition while [Source].Consume
// runs, and the return of Consume acknowledges that the ownership has ended. Each
// message carries a [Token] that grows with each new owner of its partition. A sink
// should refuse a token that is lower than one it has seen.
//
// Drivers connect rota to a broker, for example drivers/rotanats to NATS. Package
// rotatest has a Store and a Source in memory for tests, and the suites that every
// driver passes.
package rota
