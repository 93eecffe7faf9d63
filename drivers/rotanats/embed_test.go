package rotanats_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

// TestTakeover kills the process that serves a folder and measures for how long writes
// fail. Acknowledged writes must survive.
func TestTakeover(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	kill := host(t, dir)
	s := embedded.Store("embed:" + dir)
	t.Cleanup(func() { s.Close() })
	var rev rota.Rev
	n := 0
	write := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		next, err := s.Put(ctx, "n", fmt.Append(nil, n+1), rev)
		if err == nil {
			n, rev = n+1, next
			return nil
		}
		// The write may have happened, or still will: the stored value counts, as for a
		// heartbeat.
		e, gerr := s.Get(ctx, "n")
		if gerr != nil {
			return gerr
		}
		var found int
		fmt.Sscan(string(e.Value), &found)
		if found < n || found > n+1 {
			t.Fatalf("%d is there, but %d was acknowledged", found, n)
		}
		n, rev = found, e.Rev
		return nil
	}
	for range 20 {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	kill()
	died := time.Now()
	for write() != nil {
		if time.Since(died) > 20*time.Second {
			t.Fatal("nobody has taken over")
		}
	}
	took := time.Since(died)
	t.Logf("nothing could be written for %v", took.Round(time.Millisecond))
	if took > 2500*time.Millisecond { // half a lease
		t.Errorf("the takeover took %v", took)
	}
	host(t, dir) // a new process can still connect
}

func TestEmbeddedStoreSaysWhetherItIsFresh(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	fresh := func(s rota.Store) bool {
		t.Helper()
		f, err := s.(interface {
			Fresh(context.Context) (bool, error)
		}).Fresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	a, b := embedded.Store("embed:"+dir), embedded.Store("embed:"+dir)
	if !fresh(a) || fresh(b) {
		t.Error("the one that made the folder is not fresh, or the other is")
	}
	a.Close()
	b.Close()
	c := embedded.Store("embed:" + dir)
	defer c.Close()
	if fresh(c) {
		t.Error("a folder that was served before is fresh")
	}
}

// TestEmbeddedStoreIsFreshOnce checks that a store is not fresh after its first write:
// records that are missing later were lost, and the group must wait for old leases.
func TestEmbeddedStoreIsFreshOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := embedded.Store("embed:" + dir)
	t.Cleanup(func() { s.Close() })
	fresh := func() bool {
		t.Helper()
		f, err := s.(rota.Fresher).Fresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if _, err := s.Get(t.Context(), "g/plan"); !errors.Is(err, rota.ErrNotFound) {
		t.Fatal(err)
	}
	if !fresh() {
		t.Fatal("a new folder is not fresh, though nothing was written")
	}
	if _, err := s.Put(t.Context(), "g/plan", nil, 0); err != nil {
		t.Fatal(err)
	}
	if fresh() {
		t.Error("a folder with records in it is fresh")
	}
	if err := folderBucket(t, dir).DeleteStream(t.Context(), "KV_rota"); err != nil {
		t.Fatal(err)
	}
	if fresh() {
		t.Error("a folder whose bucket was deleted is fresh")
	}
	// The first call notices that the bucket is gone, and the next one creates it. The server
	// may still be removing its files then, and refuses.
	for until := time.Now().Add(time.Minute); ; {
		_, err := s.Get(t.Context(), "g/plan")
		if errors.Is(err, rota.ErrNotFound) {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("the bucket was not made again: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if fresh() {
		t.Error("a folder whose bucket was made again is fresh")
	}
}

// folderBucket connects to the server of a folder, past the store.
func folderBucket(t testing.TB, dir string) jetstream.JetStream {
	t.Helper()
	nc, err := rotanats.Connect("folder:"+dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestWhatCannotBeServed(t *testing.T) {
	t.Parallel()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	folder := func(files ...string) string {
		dir := t.TempDir()
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	served := folder()
	s, err := embedded.Serve("embed:"+served, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	guarded := folder()
	g := serveTCP(t, guarded, "nats://HOST?token="+hidden)
	g.Close()
	embed := func(dir string) error { return works(t, embedded.Store("embed:"+dir)) }
	serve := func(dir, listen string) error {
		s, err := embedded.Serve("embed:"+dir, listen)
		if err == nil {
			s.Close()
		}
		return err
	}
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"a folder of something else":  {embed(folder("letter.txt")), "holds something else (letter.txt)"},
		"a file":                      {embed(filepath.Join(folder("f"), "f")), "is not a folder"},
		"a note that is none":         {embed(folder("rota.address")), "was not written by rota"},
		"a port that is taken":        {serve(folder(), "nats://"+port.Addr().String()), "the port is taken: " + port.Addr().String()},
		"a folder that is served":     {serve(served, ""), "is served by process " + fmt.Sprint(os.Getpid())},
		"no URL":                      {serve(folder(), "127.0.0.1:14221"), "write nats://HOST:PORT"},
		"all the world, no password":  {serve(folder(), "nats://0.0.0.0:14221"), "give a user and password or a token"},
		"every interface":             {serve(folder(), "nats://[::]:14221"), "give a user and password or a token"},
		"openly, all the world":       {serve(folder(), "nats://0.0.0.0:14221?open=true"), "give a user and password or a token"},
		"openly and with a token":     {serve(folder(), "nats://127.0.0.1:14221?open=true&token="+hidden), "give one of them"},
		"a token and no port":         {serve(folder()+"?token="+hidden, ""), "say where to listen"},
		"a certificate and no port":   {serve(folder()+"?cert=a&key=b", ""), "say where to listen"},
		"openly and no port":          {serve(folder()+"?open=true", ""), "say where to listen"},
		"a token of the folder's":     {serve(folder()+"?token="+hidden, "nats://127.0.0.1:14221"), "belongs in the URL to listen on"},
		"a client's key":              {serve(folder(), "nats://127.0.0.1:14221?nkey=f"), "they are for clients"},
		"a password nobody told":      {embed(guarded), "was served with a password"},
		"no such key":                 {serve(folder(), "nats://127.0.0.1:14221?cert=a&key=b"), "certificate a with key b"},
		"nobody serves, for a source": {sourceError(t, "embed:"+folder()), "nobody serves it now"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", name, c.err, c.says)
		}
		silent(t, name, c.err)
	}
	serveTCP(t, guarded, "nats://HOST?token="+hidden).Close() // with the password again
	if os.Geteuid() != 0 {
		dir := folder()
		os.Chmod(dir, 0o500)
		if err := embed(filepath.Join(dir, "data")); err == nil || !strings.Contains(err.Error(), "no permission") {
			t.Errorf("without permission: %v", err)
		}
	}
}

func sourceError(t *testing.T, address string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := rotanats.Source(with(address, "stream=S&subject=s.*")).Partitions(ctx)
	return err
}

// TestUnsafeBucketsAreRefused checks that a bucket which loses records, or was not made by
// rota, is refused.
func TestUnsafeBucketsAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := newBuckets(t, s.URL())
	for name, says := range b.makeOdd() {
		err := works(t, rotanats.Store(s.URL()+"?bucket="+name))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("bucket %s: %v, want %q", name, err, says)
		}
	}
	for class, st := range map[rota.Class]rota.Store{
		rota.ClassC: rotanats.Store(s.URL()),
		rota.ClassB: rotanats.Store(s.URL() + "?sync=always"),
	} {
		if got := st.(rota.Classifier).Class(); got != class {
			t.Errorf("before it is used, class %v, want %v", got, class)
		}
		if err := works(t, st); err != nil {
			t.Error(err)
		}
		if got := st.(rota.Classifier).Class(); got != class {
			t.Errorf("class %v, want %v", got, class)
		}
	}
	if _, err := rotanats.Store(s.URL()).Get(t.Context(), "a.b"); err == nil || errors.Is(err, rota.ErrNotFound) {
		t.Errorf("a key with a dot: %v", err)
	}
}
