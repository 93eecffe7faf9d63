package rota

import "context"

// A Scaler changes the number of members. Only the leader calls it, one call at a time,
// repeatedly and with the number that is wanted now, so it must be idempotent. remove are
// members that own nothing any more and stay LIVE until the Scaler ends them; want does not
// count them. A Scaler ends nobody else: a platform that would choose by itself is told
// first whom to choose.
//
// An error is told in the group's status, and the call is made again after a while: after
// the time that the error's method RetryAfter() time.Duration asks for, if it has one.
type Scaler interface {
	Scale(ctx context.Context, want int, remove []MemberInfo) error
}

// A RemovalOrder is a Scaler whose platform decides which member goes when the number is
// lowered, as a StatefulSet does. The plan then empties those, and not the ones that cost
// least.
type RemovalOrder interface {
	// RemovedBefore tells whether the platform removes a before b.
	RemovedBefore(a, b MemberInfo) bool
}
