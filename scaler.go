package rota

import "context"

// A Scaler changes the number of members. Only the leader calls it, repeatedly and
// with the number that is wanted now, so it must be idempotent. remove are members
// that own nothing any more and stay LIVE until the Scaler ends them.
type Scaler interface {
	Scale(ctx context.Context, want int, remove []MemberInfo) error
}
