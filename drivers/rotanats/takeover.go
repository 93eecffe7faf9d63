package rotanats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-dev/rota"
)

// Embed keeps records in a folder, by a NATS server that the processes of one
// host share: the first to come serves it, the others connect to that one through a
// socket in the folder; when it ends, however it ends, another takes over the same
// data, within a fraction of a lease. Every write is synced to disk before it is
// acknowledged. No other user but root can connect.
//
// It is good for one host, and as long as that lives. A server that is frozen
// keeps the folder: then nobody can renew a lease.
func Embed(dir string, opts ...Option) rota.Store {
	l := newLink("embed:"+dir, opts)
	e := &embedded{store: newStore(l, l.set.bucket)}
	l.set.synced = true
	l.serve, l.lost = e.begin, e.orphaned
	return e
}

type embedded struct {
	*store
	tasks sync.WaitGroup
	used  atomic.Bool // this process has written, or tried to

	serving sync.Mutex
	server  *Server  // if it is us who serve
	began   *os.File // the lock file of the folder that we began with
	ended   bool
}

// How often a folder is asked for while nobody serves it.
const askEvery = 10 * time.Millisecond

// begin sees to it that somebody serves the folder.
func (e *embedded) begin() error {
	f := e.set.place()
	for deadline := time.Now().Add(dialTime); ; time.Sleep(askEvery) {
		err := e.take()
		late := time.Now().After(deadline)
		switch {
		case err == nil:
			return e.begun(f)
		case !errors.Is(err, errServed):
			return err
		default:
			conn, derr := f.dial()
			if derr == nil {
				conn.Close()
				return e.begun(f)
			}
			if errors.Is(derr, errForeign) {
				return derr
			}
			if late {
				n, _ := f.read()
				return fmt.Errorf("the folder %s is locked by process %d, which does not answer at %s: if that is an earlier version of rota, end it", f, n.Pid, socketFile)
			}
		}
	}
}

// begun keeps the lock file open: by it a takeover tells whether the folder is still
// the same.
func (e *embedded) begun(f folder) error {
	file, err := f.open(lockFile, os.O_RDONLY|nonBlock)
	if err != nil {
		return f.explain(err)
	}
	e.serving.Lock()
	defer e.serving.Unlock()
	if e.began != nil || e.ended {
		return file.Close()
	}
	e.began = file
	return nil
}

// take serves the folder, if nobody does. It does not begin in a folder that is
// another by now: what we know was never in that one.
func (e *embedded) take() error {
	e.serving.Lock()
	defer e.serving.Unlock()
	if e.ended {
		return errClosed
	}
	if e.server != nil {
		return nil
	}
	f := e.set.place()
	if err := e.same(f); err != nil {
		return err
	}
	s, err := serve(f, "", e.set, false)
	if err != nil {
		return err
	}
	if err := e.same(f); err != nil { // it was taken away just now, and we have made another
		s.Close()
		return err
	}
	e.server = s
	e.tasks.Go(func() {
		<-s.Done()
		if err := s.Err(); err != nil {
			e.lose(err)
		}
	})
	e.set.log.Info("serving", "folder", e.set.folder)
	return nil
}

// same: the folder is the one that we began with, if we have begun.
func (e *embedded) same(f folder) error {
	if e.began == nil {
		return nil
	}
	return f.still(e.began)
}

// orphaned: who served us may be gone.
func (e *embedded) orphaned() {
	e.serving.Lock()
	defer e.serving.Unlock()
	if !e.ended {
		e.tasks.Go(e.takeOver)
	}
}

// takeOver runs from a disconnect until somebody serves again.
func (e *embedded) takeOver() {
	e.link.mu.Lock()
	back := e.life.back
	e.link.mu.Unlock()
	for {
		if err := e.take(); err == nil {
			return
		} else if errors.Is(err, errReplaced) {
			e.lose(fmt.Errorf("rotanats: %w", err))
			return
		} else if !errors.Is(err, errServed) {
			e.set.log.Warn("taking over", "folder", e.set.folder, "err", err)
		}
		select {
		case <-back:
			return
		case <-time.After(askEvery):
		}
	}
}

// lose: the folder was taken away. Nothing is served, written or read any more by
// this store; leases end, and with them the sessions.
func (e *embedded) lose(because error) {
	e.set.log.Error("stopped", "folder", e.set.folder, "err", because)
	e.abandon(because)
}

// Close gives the folder to another process, if it was ours to serve.
func (e *embedded) Close() error {
	e.close()
	e.serving.Lock()
	s := e.server
	e.server, e.ended = nil, true
	if e.began != nil {
		e.began.Close()
	}
	e.serving.Unlock()
	var err error
	if s != nil {
		err = s.Close()
	}
	e.tasks.Wait()
	return err
}

// Class is B: one server with a durable log.
func (e *embedded) Class() rota.Class { return rota.ClassB }

// Put is the store's, and the end of freshness.
func (e *embedded) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	e.used.Store(true)
	return e.store.Put(ctx, key, value, prev)
}

// Fresh tells whether this process has just made the folder and has not written to
// it yet, so that no group can have forgotten anything in it. Later a bucket without
// records is one that was emptied. It connects.
func (e *embedded) Fresh(ctx context.Context) (bool, error) {
	if _, err := e.open(ctx); err != nil {
		return false, err
	}
	e.serving.Lock()
	defer e.serving.Unlock()
	return e.server != nil && e.server.fresh && !e.used.Load(), nil
}
