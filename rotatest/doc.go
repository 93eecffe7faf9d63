// Package rotatest holds what drivers of rota are tested with: suites that every
// driver calls and none can opt out of, a store and a source in memory, and a
// wrapper that injects what networks and servers do.
//
// A suite that passes shows that no case of it found anything; it does not prove
// a driver right. What a driver needs and no case asks for belongs into the suite,
// so that all drivers get it.
package rotatest
