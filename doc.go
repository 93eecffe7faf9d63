// Package rota keeps a duty roster for queues: at every moment at most one
// member may act on a partition, and none is idle for longer than it must be.
// Said exactly: nobody is granted a partition before its former owner stopped,
// or before that owner's lease ran out on a clock that also counts suspend.
// What this does not promise: a process frozen in the middle of an effect can
// still finish that effect after it wakes, and only a sink that checks the
// token can refuse it. With such a sink no effect of a former owner is ever
// accepted.
package rota
