// Package scale has scalers that need no SDK: Webhook asks a program of yours, Kubernetes
// changes a Deployment or a StatefulSet, and Local asks a supervisor on the same host, for
// which Serve is the other half.
//
// A scaler of this package lowers a number only by members that the group has named, since
// those own nothing any more. A platform that chooses by itself is told whom to choose
// first, and if it would choose another one, the number stays and the error says why. Which
// leader asks is not known here: a leader that was frozen and is late can still be obeyed
// for one call, which moves partitions once more and endangers none.
//
// Each scaler prints as its URL without the parts that may be secret.
package scale
