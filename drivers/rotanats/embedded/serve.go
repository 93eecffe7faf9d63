package embedded

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
	"github.com/rota-dev/rota/drivers/rotanats/internal/folder"
)

// A Server is an embedded NATS server that serves a folder. It syncs every write to disk
// before it acknowledges it. When it cannot write, as on a full disk, it logs that and
// goes on by itself once it can; connections are lost for a moment then.
type Server struct {
	dir   string
	log   *slog.Logger
	set   *address.Settings
	ns    atomic.Pointer[server.Server] // nil while it is restarted
	lock  *os.File
	note  folder.Note
	fresh bool
	found []server.StreamDetail // the streams, when nats-server had just read them
	once  sync.Once
	done  chan struct{} // closed when the server has stopped
	err   error         // why it stopped by itself; nil after Close
	guard sync.WaitGroup

	nursing sync.WaitGroup // the goroutine that restarts nats-server
	quit    chan struct{}  // closed when the server is to stop

	socket net.Listener
	conns  sync.WaitGroup  // the goroutines of the socket and its connections
	ending context.Context // ends when those connections must be closed
	end    context.CancelFunc
}

// checkEvery is how often a server checks that its folder is still the one it locked. If
// the folder was replaced, another process can lock and serve the new one, and its
// members and ours would not know of each other.
const checkEvery = 500 * time.Millisecond

const (
	startTime = 30 * time.Second // timeout for the server to read its data
	writeTime = 10 * time.Second // timeout of a write to a client
	startRoom = 64 << 10         // bytes that must be free
	leaveTime = time.Second      // how long clients may take to read the last bytes of a server that stops
)

// Serve starts the server of a folder, for other processes to connect to, and returns
// when it is ready. dir is the URL of the folder, embed:DIR. Processes of this host
// connect by embed:DIR or folder:DIR, through a socket in the folder: a user who may not
// enter the folder cannot.
//
// listen is the URL of an address where clients can connect by TCP as well, "" for none:
//
//	nats://127.0.0.1:4222                                clients sign in with the folder's key
//	nats://user:password@0.0.0.0:4222?cert=FILE&key=FILE
//	nats://0.0.0.0:4222?token-file=FILE&cert=FILE&key=FILE&ca=FILE
//	nats://127.0.0.1:4222?open=true                      every user of this host may connect
//
// Clients need the user and password, or the token; if the URL has none, they need the
// key in the folder's file rota.nkey. With ca, clients have to show a certificate.
// Beyond loopback a user and password or a token is required, and a certificate is
// advised.
func Serve(dir, listen string, opts ...rotanats.Option) (*Server, error) {
	home, err := address.Read(dir)
	if err == nil {
		err = home.Check()
	}
	if err != nil {
		return nil, err
	}
	if home.Folder == "" || home.ClientOnly {
		return nil, errors.New("rotanats: serve: name the folder as embed:DIR")
	}
	set := home
	if listen != "" {
		if set, err = address.Read(listen); err != nil {
			return nil, err
		}
		if len(set.Servers) != 1 {
			return nil, errors.New("rotanats: serve: listen on one address: write nats://HOST:PORT")
		}
		if set.WebSocket {
			return nil, errors.New("rotanats: serve: an embedded server has no web sockets: write nats://HOST:PORT")
		}
		if signIn(home) || home.Secure || home.Open {
			return nil, errors.New("rotanats: serve: how clients sign in belongs in the URL to listen on, not in that of the folder")
		}
		listen = set.Servers[0]
	}
	for _, o := range opts {
		o(set)
	}
	if err := set.Check(); err != nil {
		return nil, err
	}
	if err := set.ReadSecrets(); err != nil {
		return nil, fmt.Errorf("rotanats: serve: %w", err)
	}
	if err := servable(set, listen); err != nil {
		return nil, err
	}
	s, err := serve(home.AsFolder(), listen, set, true)
	if errors.Is(err, folder.ErrServed) {
		n, _ := home.AsFolder().Read()
		return nil, fmt.Errorf("rotanats: the folder %s is served by process %d already", home.Folder, n.Pid)
	}
	if err != nil {
		return nil, fmt.Errorf("rotanats: serve: %w", err)
	}
	return s, nil
}

// signIn tells whether the settings have a user, a password or a token.
func signIn(s *address.Settings) bool { return s.User != "" || s.Password != "" || s.Token != "" }

// servable refuses settings that would let in more clients than was meant, or none at
// all. A user without a password, say, does not mean "no password".
func servable(s *address.Settings, listen string) error {
	secrets := signIn(s)
	switch {
	case (s.User == "") != (s.Password == ""):
		return errors.New("rotanats: serve with a user and a password: give both, and neither empty")
	case s.Creds != "" || s.NKey != "" || s.NKeySeed != "":
		return errors.New("rotanats: serve with credentials or a key: they are for clients; give a user and password or a token")
	case listen == "" && (secrets || s.Secure || s.Open):
		return errors.New("rotanats: serve with a password, a token, a certificate or openly: that is for clients by TCP; say where to listen")
	case s.Open && (secrets || s.CA != ""):
		return errors.New("rotanats: serve openly, and with a password, a token or a CA: give one of them")
	case s.Secure && s.TLS == nil && s.Cert == "":
		return errors.New("rotanats: serve with TLS and no certificate: nobody could connect; add cert=FILE&key=FILE")
	case s.TLS != nil && len(s.TLS.Certificates) == 0 && s.TLS.GetCertificate == nil && s.TLS.GetConfigForClient == nil:
		return errors.New("rotanats: serve with TLS and no certificate in it: nobody could connect")
	}
	return nil
}

// serve locks the folder and starts its server. explicit means that Serve was called,
// whose caller has said how clients sign in.
func serve(f folder.Folder, listen string, set *address.Settings, explicit bool) (*Server, error) {
	lock, err := f.Lock()
	if err != nil {
		return nil, err
	}
	s := &Server{dir: f.Dir, log: serverLog(set), set: set, lock: lock, done: make(chan struct{}), quit: make(chan struct{})}
	if err := s.start(f, listen, set, explicit); err != nil {
		lock.Close()
		return nil, err
	}
	s.ending, s.end = context.WithCancel(context.Background())
	s.conns.Go(s.accept)
	s.nursing.Go(func() { s.nurse(f) })
	s.guard.Go(func() { s.watch(f) })
	return s, nil
}

// watch stops the server when its folder was removed or replaced.
func (s *Server) watch(f folder.Folder) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
			if err := f.Still(s.lock); err != nil {
				s.stop(fmt.Errorf("rotanats: %w", err))
				return
			}
		}
	}
}

func (s *Server) start(f folder.Folder, listen string, set *address.Settings, explicit bool) error {
	if err := f.Data(); err != nil {
		return err
	}
	last, fresh, err := f.Last()
	if err != nil {
		return err
	}
	auth := set.User != "" || set.Token != ""
	switch {
	case last.Guarded && !explicit:
		return fmt.Errorf("the folder %s was served with a password at %s and needs one again: run rota serve", f, last.Address)
	case listen == "":
	case !auth && !loopback(listen):
		return fmt.Errorf("%s can be reached from other hosts: give a user and password or a token", listen)
	case !set.Secure && !loopback(listen):
		s.log.Warn("passwords, tokens and records travel unencrypted: serve with a certificate", "address", listen)
	}
	if err := guessable(set, listen); err != nil {
		return err
	}
	set.WarnExposed()
	s.fresh = fresh
	s.note = folder.Note{Address: listen, Guarded: explicit && (auth || set.Secure), Pid: os.Getpid()}
	if _, err := s.options(f); err != nil { // before the note says that this process serves
		return err
	}
	if err := f.WriteNote(s.note); err != nil {
		return f.Explain(err)
	}
	if err := s.launch(f, true); err != nil {
		return err
	}
	if s.socket, err = f.Listen(); err != nil {
		s.land()
	}
	return err
}

// launch starts nats-server, which reads its data. first is false if it ran before in this
// process and could not write.
func (s *Server) launch(f folder.Folder, first bool) error {
	opts, err := s.options(f)
	if err != nil {
		return err
	}
	// On a full disk nats-server may take a stream for broken, and remove it.
	if err := f.Writable(startRoom, false); err != nil {
		return f.Explain(err)
	}
	dirs := streamDirs(f.Dir)
	if err := checkFiles(dirs); err != nil {
		return err
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	said := &natsLog{log: s.log, dir: s.dir}
	ns.SetLoggerV2(said, false, false, false)
	ns.Start()
	ready := ns.ReadyForConnections(startTime)
	if err = said.failed(); err != nil || !ready {
		err = errors.Join(fmt.Errorf("the server of %s did not start", f), err)
	} else {
		err = s.checkStreams(ns, dirs, said, first)
	}
	if err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return err
	}
	s.ns.Store(ns)
	return nil
}

// land stops nats-server, if it runs.
func (s *Server) land() {
	if ns := s.ns.Swap(nil); ns != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
	}
}

// maxConnections is half of the files that the process may have open: the process needs
// files for its own work, too, and a flood of connections must not use them up.
func maxConnections() int { return int(min(maxFiles()/2, 1<<16)) }

// maxStore is no limit: the disk is. By default nats-server would accept three quarters of
// what is free when it starts, also when there is more space later. A group would then stop
// on a disk that is not full.
const maxStore = 1 << 60

func (s *Server) options(f folder.Folder) (*server.Options, error) {
	set := s.set
	o := &server.Options{
		ServerName: address.ServerName, DontListen: true, NoSigs: true, DisableJetStreamBanner: true,
		JetStream: true, StoreDir: f.Dir, SyncAlways: true, JetStreamMaxStore: maxStore,
		MaxPayload: 8 << 20, WriteDeadline: writeTime, MaxConn: maxConnections(),
		JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: -1}, // otherwise 1000 per stream, and each partition needs one
	}
	if s.note.Address == "" {
		return o, nil
	}
	if err := free(s.note.Address); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(s.note.Address)
	if err != nil {
		return nil, err
	}
	if o.Port, err = strconv.Atoi(port); err != nil {
		return nil, err
	}
	o.Host, o.DontListen = host, false
	if !set.Open {
		d := &authenticator{set: set}
		if set.User == "" && set.Token == "" {
			if d.key, err = f.Key(); err != nil {
				return nil, err
			}
		}
		o.CustomClientAuthentication, o.AlwaysEnableNonce = d, true
	}
	if set.Secure {
		if o.TLSConfig, err = set.TLSConfig(); err != nil {
			return nil, err
		}
		o.TLSConfig.ClientCAs, o.TLSTimeout = o.TLSConfig.RootCAs, 5
		if o.TLSConfig.ClientCAs != nil {
			o.TLSVerify, o.TLSConfig.ClientAuth = true, tls.RequireAndVerifyClientCert
		}
		set.ServeNewest(o.TLSConfig)
	}
	return o, nil
}

// authenticator accepts connections through the folder's socket, clients that know the
// secret given to Serve, and, if none was given, clients that hold the folder's key.
type authenticator struct {
	set *address.Settings
	key string // public
}

func (d *authenticator) Check(c server.ClientAuthentication) bool {
	if from := c.RemoteAddress(); from != nil && from.Network() == "pipe" { // see proxy
		return true
	}
	same := func(a, b string) bool { return b != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
	o := c.GetOpts()
	return same(o.Token, string(d.set.Token)) || same(o.Password, string(d.set.Password)) && same(o.Username, d.set.User) ||
		same(o.Nkey, d.key) && signed(d.key, o.Sig, c.GetNonce())
}

// signed tells whether the holder of a key has signed the nonce of this connection.
func signed(public, signature string, nonce []byte) bool {
	key, err := nkeys.FromPublicKey(public)
	if err != nil || len(nonce) == 0 {
		return false
	}
	sig, err := base64.RawURLEncoding.DecodeString(signature)
	return err == nil && key.Verify(nonce, sig) == nil
}

// Addr returns the address where the server listens for TCP clients: HOST:PORT, or "".
func (s *Server) Addr() string { return s.note.Address }

// URL returns the server's address for clients, without secrets. If it does not listen
// for TCP clients, that is folder:DIR, for processes of this host.
func (s *Server) URL() string {
	if s.note.Address == "" {
		return "folder:" + s.dir
	}
	return "nats://" + s.note.Address
}

// Fresh tells whether the server found an empty folder, so that no records can have been
// lost.
func (s *Server) Fresh() bool { return s.fresh }

// Done is closed when the server has stopped: after Close, or because its folder was
// removed or replaced.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns why the server stopped by itself. It is nil before Done is closed.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close stops the server and unlocks the folder.
func (s *Server) Close() error {
	s.stop(nil)
	s.guard.Wait()
	return nil
}

func (s *Server) stop(because error) {
	s.once.Do(func() {
		close(s.quit)
		s.nursing.Wait()
		s.socket.Close() // the file stays: the next server removes it
		// A client that does not read, such as one stopped by a signal, must not keep the
		// folder locked.
		late := time.AfterFunc(leaveTime, s.end)
		s.land()
		s.lock.Close()
		s.conns.Wait()
		late.Stop()
		s.end()
		s.err = because
		close(s.done)
	})
}

// String names the server without secrets.
func (s *Server) String() string { return s.URL() }

// Format keeps secrets out of every verb.
func (s *Server) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
