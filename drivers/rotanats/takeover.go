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
	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
	"github.com/rota-dev/rota/drivers/rotanats/internal/folder"
)

// hosting is a store on the server of a folder, which this process runs if no other
// does. When the serving process ends, one of the others takes over.
type hosting struct {
	*store
	tasks sync.WaitGroup
	used  atomic.Bool // this process has written, or tried to

	serving sync.Mutex
	server  address.Host // nil while another process serves
	began   *os.File     // the lock file of the folder that we began with
	ended   bool
}

func newHosting(l *link) *hosting {
	e := &hosting{store: newStore(l, l.set.Bucket)}
	l.set.Synced = true // as every embedded server does
	l.serve, l.lost = e.begin, e.orphaned
	return e
}

// begin sees to it that somebody serves the folder.
func (e *hosting) begin() error {
	f := e.set.Place()
	for deadline := time.Now().Add(dialTime); ; time.Sleep(folder.AskEvery) {
		err := e.take()
		late := time.Now().After(deadline)
		switch {
		case err == nil:
			return e.begun(f)
		case !errors.Is(err, folder.ErrServed):
			return err
		default:
			conn, derr := f.Connect()
			if derr == nil {
				conn.Close()
				return e.begun(f)
			}
			if errors.Is(derr, folder.ErrForeign) {
				return derr
			}
			if late {
				n, _ := f.Read()
				return fmt.Errorf("the folder %s is locked by process %d, which does not answer at %s: if that is an earlier version of rota, end it", f, n.Pid, folder.SocketFile)
			}
		}
	}
}

// begun keeps the lock file open: by it a takeover tells whether the folder is still
// the same.
func (e *hosting) begun(f folder.Folder) error {
	file, err := f.Open(folder.LockFile, os.O_RDONLY|folder.NonBlock)
	if err != nil {
		return f.Explain(err)
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
func (e *hosting) take() error {
	e.serving.Lock()
	defer e.serving.Unlock()
	if e.ended {
		return errClosed
	}
	if e.server != nil {
		return nil
	}
	f := e.set.Place()
	if err := e.same(f); err != nil {
		return err
	}
	s, err := e.set.Host(e.set)
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
	e.set.Log.Info("serving", "folder", e.set.Folder)
	return nil
}

// same: the folder is the one that we began with, if we have begun.
func (e *hosting) same(f folder.Folder) error {
	if e.began == nil {
		return nil
	}
	return f.Still(e.began)
}

// orphaned: who served us may be gone.
func (e *hosting) orphaned() {
	e.serving.Lock()
	defer e.serving.Unlock()
	if !e.ended {
		e.tasks.Go(e.takeOver)
	}
}

// takeOver runs from a disconnect until somebody serves again.
func (e *hosting) takeOver() {
	e.link.mu.Lock()
	back := e.life.back
	e.link.mu.Unlock()
	for {
		if err := e.take(); err == nil {
			return
		} else if errors.Is(err, folder.ErrReplaced) {
			e.lose(fmt.Errorf("rotanats: %w", err))
			return
		} else if !errors.Is(err, folder.ErrServed) {
			e.set.Log.Warn("taking over", "folder", e.set.Folder, "err", err)
		}
		select {
		case <-back:
			return
		case <-time.After(folder.AskEvery):
		}
	}
}

// lose: the folder was taken away. Nothing is served, written or read any more by
// this store; leases end, and with them the sessions.
func (e *hosting) lose(because error) {
	e.set.Log.Error("stopped", "folder", e.set.Folder, "err", because)
	e.abandon(because)
}

// Close gives the folder to another process, if it was ours to serve.
func (e *hosting) Close() error {
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
func (e *hosting) Class() rota.Class { return rota.ClassB }

// Put is the store's, and the end of freshness.
func (e *hosting) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	e.used.Store(true)
	return e.store.Put(ctx, key, value, prev)
}

// Fresh tells whether this process has just made the folder and has not written to
// it yet, so that no group can have forgotten anything in it. Later a bucket without
// records is one that was emptied. It connects.
func (e *hosting) Fresh(ctx context.Context) (bool, error) {
	if _, err := e.open(ctx); err != nil {
		return false, err
	}
	e.serving.Lock()
	defer e.serving.Unlock()
	return e.server != nil && e.server.Fresh() && !e.used.Load(), nil
}
