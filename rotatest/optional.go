package rotatest

import (
	"context"
	"errors"
	"iter"

	"github.com/rota-dev/rota"
)

// optional forwards the optional methods of a store, for wrappers: a wrapper without
// these methods would hide them. For a store without a method it returns rota's
// default.
type optional struct{ of rota.Store }

func (o optional) Class() rota.Class {
	if c, ok := o.of.(rota.Classifier); ok {
		return c.Class()
	}
	return rota.ClassUnknown
}

func (o optional) Identity(ctx context.Context) (string, error) {
	if i, ok := o.of.(rota.Identifier); ok {
		return i.Identity(ctx)
	}
	return "", nil
}

func (o optional) Open(ctx context.Context) error {
	if op, ok := o.of.(rota.Opener); ok {
		return op.Open(ctx)
	}
	return nil
}

func (o optional) Fresh(ctx context.Context) (bool, error) {
	if f, ok := o.of.(rota.Fresher); ok {
		return f.Fresh(ctx)
	}
	return false, nil
}

func (o optional) Warnings() []string {
	if w, ok := o.of.(rota.Warner); ok {
		return w.Warnings()
	}
	return nil
}

func (o optional) Check() error { return check(o.of) }

func check(of any) error {
	if c, ok := of.(rota.Checker); ok {
		return c.Check()
	}
	return nil
}

// wrapped forwards the optional methods of a source, for wrappers.
type wrapped struct{ rota.Source }

func (w wrapped) ListsAll() bool {
	l, ok := w.Source.(rota.Lister)
	return ok && l.ListsAll()
}

func (w wrapped) Bind(group string) error {
	if b, ok := w.Source.(rota.Binder); ok {
		return b.Bind(group)
	}
	return nil
}

func (w wrapped) Check() error { return check(w.Source) }

func (w wrapped) Open(ctx context.Context) error {
	if op, ok := w.Source.(rota.Opener); ok {
		return op.Open(ctx)
	}
	return nil
}

func (w wrapped) Prepare(ctx context.Context, p rota.Partition) error {
	if s, ok := w.Source.(rota.Preparer); ok {
		return s.Prepare(ctx, p)
	}
	return nil
}

func (w wrapped) Read(ctx context.Context, partitions []string) ([]rota.Reading, error) {
	if m, ok := w.Source.(rota.Meter); ok {
		return m.Read(ctx, partitions)
	}
	return nil, errors.ErrUnsupported
}

func (w wrapped) Letters(ctx context.Context, partition string) iter.Seq2[rota.Letter, error] {
	if d, ok := w.Source.(rota.DeadLetters); ok {
		return d.Letters(ctx, partition)
	}
	return func(yield func(rota.Letter, error) bool) { yield(rota.Letter{}, errors.ErrUnsupported) }
}

func (w wrapped) DropLetter(ctx context.Context, id string) error {
	if d, ok := w.Source.(rota.DeadLetters); ok {
		return d.DropLetter(ctx, id)
	}
	return errors.ErrUnsupported
}

func (w wrapped) RenewLetter(ctx context.Context, l rota.Letter) error {
	if d, ok := w.Source.(rota.DeadLetters); ok {
		return d.RenewLetter(ctx, l)
	}
	return errors.ErrUnsupported
}
