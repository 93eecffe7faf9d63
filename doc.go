// Package rota keeps a duty roster for queues: at every moment at most one
// member may act on a partition, and none is idle for longer than it must be.
// Said exactly: nobody is granted a partition before its former owner stopped,
// or before that owner's lease ran out on a clock that also counts suspend.
// What this does not promise: a process frozen in the middle of an effect can
// still finish that effect after it wakes, and only a sink that checks the
// token can refuse it. With such a sink no effect of a former owner is ever
// accepted.
//
// A handler that outlives its member's lease would break that promise, and no
// ctx can end it: then the member ends the process, by Config.Abort, which by
// default says why and exits with status 4.
//
// A program makes a [Member] of a [Store], where the members of its group meet,
// a [Source] of partitions, and a handler, and runs it:
//
//	m, err := rota.New(rota.Config{Group: "orders", Store: store, Source: source, Handle: handle})
//	…
//	err = m.Run(ctx) // joins and works; when ctx ends it drains and leaves
//
// Ownership is a function call: while [Source].Consume runs, the partition is
// owned, and its return is the acknowledgement that it is not any more. Each
// message carries a [Token] that grows with each new owner; let whatever the
// handler writes to refuse lower ones.
package rota
