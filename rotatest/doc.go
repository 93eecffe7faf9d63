// Package rotatest tests drivers of rota. It has suites that every driver must pass,
// without a way to opt out of a case, a store and a source in memory, and a wrapper
// that injects the faults of networks and servers.
//
// A suite that passes found no fault; it does not prove that a driver is right. A
// driver has no tests of its own for the contract: a missing case is added to the
// suite, so that all drivers get it.
package rotatest
