package rota

import "context"

// A Scaler changes how many members there are. Only the leader calls it, again
// and again with what is wanted now: it must not matter how often. remove are
// members that own nothing any more and stay LIVE until the Scaler ends them.
type Scaler interface {
	Scale(ctx context.Context, want int, remove []MemberInfo) error
}
