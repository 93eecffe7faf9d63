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

// hosting is a store on the server of a folder. This process runs the server if no other
// does. When the process that runs it ends, one of the others takes over.
type hosting struct {
	*store
	tasks sync.WaitGroup
	used  atomic.Bool // this process has written a record, or tried to

	serving  sync.Mutex
	server   address.Host // nil while another process serves
	lockFile *os.File     // of the folder that this process began with; nil before
	ended    bool
}

func newHosting(l *link) *hosting {
	e := &hosting{store: newStore(l, l.set.Bucket)}
	l.set.Synced = true // an embedded server syncs every write
	l.serve, l.lost = e.begin, e.serverLost
	return e
}

// begin returns once this process or another serves the folder.
func (e *hosting) begin() error {
	f := e.set.AsFolder()
	for deadline := time.Now().Add(dialTime); ; time.Sleep(folder.PollEvery) {
		err := e.serveFolder()
		late := time.Now().After(deadline)
		switch {
		case err == nil:
			return e.keepLock(f)
		case !errors.Is(err, folder.ErrServed):
			return err
		default:
			conn, derr := f.Connect()
			if derr == nil {
				conn.Close()
				return e.keepLock(f)
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

// keepLock keeps the lock file open, so that a takeover can tell whether the folder is
// still the same.
func (e *hosting) keepLock(f folder.Folder) error {
	file, err := f.Open(folder.LockFile, os.O_RDONLY|folder.NonBlock)
	if err != nil {
		return f.Explain(err)
	}
	e.serving.Lock()
	defer e.serving.Unlock()
	if e.lockFile != nil || e.ended {
		return file.Close()
	}
	e.lockFile = file
	return nil
}

// serveFolder starts the server of the folder, if this process does not run it yet. It
// returns folder.ErrServed if another process does. It refuses a folder that was replaced
// since this process began: the records that this process knows were never in that one.
func (e *hosting) serveFolder() error {
	e.serving.Lock()
	defer e.serving.Unlock()
	if e.ended {
		return errClosed
	}
	if e.server != nil {
		return nil
	}
	f := e.set.AsFolder()
	if err := e.same(f); err != nil {
		return err
	}
	s, err := e.set.Host(e.set)
	if err != nil {
		return err
	}
	if err := e.same(f); err != nil { // the folder was removed just now, and Host has created another
		s.Close()
		return err
	}
	e.server = s
	e.tasks.Go(func() {
		<-s.Done()
		if err := s.Err(); err != nil {
			e.folderLost(err)
		}
	})
	e.set.Log.Info("serving", "folder", e.set.Folder)
	return nil
}

// same returns an error if the folder is not the one that this process began with.
func (e *hosting) same(f folder.Folder) error {
	if e.lockFile == nil {
		return nil
	}
	return f.Still(e.lockFile)
}

// serverLost starts a takeover: the process that runs the server may have ended.
func (e *hosting) serverLost() {
	e.serving.Lock()
	defer e.serving.Unlock()
	if !e.ended {
		e.tasks.Go(e.takeover)
	}
}

// takeover runs from a disconnect until this process serves the folder or is connected
// again.
func (e *hosting) takeover() {
	e.link.mu.Lock()
	back := e.epoch.back
	e.link.mu.Unlock()
	for pause := folder.PollEvery; ; {
		switch err := e.serveFolder(); {
		case err == nil || errors.Is(err, errClosed):
			return
		case errors.Is(err, folder.ErrReplaced):
			e.folderLost(fmt.Errorf("rotanats: %w", err))
			return
		case errors.Is(err, folder.ErrServed):
			pause = folder.PollEvery
		default:
			e.failing(err)
			e.warn(fmt.Sprintf("nobody serves the folder %s, and this process cannot: %v", e.set.Folder, err))
			pause = min(2*pause, time.Second) // an attempt reads all files
		}
		select {
		case <-back:
			return
		case <-time.After(pause):
		}
	}
}

// folderLost closes the store for good after its folder was removed or replaced. Its
// calls fail, so leases expire and sessions end.
func (e *hosting) folderLost(because error) {
	e.set.Log.Error("stopped", "folder", e.set.Folder, "err", because)
	e.abandon(because)
}

// Close closes the store. If this process runs the server, another can take over.
func (e *hosting) Close() error {
	e.close()
	e.serving.Lock()
	s := e.server
	e.server, e.ended = nil, true
	if e.lockFile != nil {
		e.lockFile.Close()
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

// Put writes a record as store does. After the first one the folder is not fresh.
func (e *hosting) Put(ctx context.Context, key string, value []byte, prev rota.Rev) (rota.Rev, error) {
	e.used.Store(true)
	return e.store.Put(ctx, key, value, prev)
}

// Fresh tells whether this process has created the folder and has not written to it yet,
// so that no record can have been lost from it. Later an empty bucket means that its
// records were deleted. Fresh connects.
func (e *hosting) Fresh(ctx context.Context) (bool, error) {
	if _, err := e.open(ctx); err != nil {
		return false, err
	}
	e.serving.Lock()
	defer e.serving.Unlock()
	return e.server != nil && e.server.Fresh() && !e.used.Load(), nil
}
