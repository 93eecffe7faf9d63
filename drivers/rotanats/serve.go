package rotanats

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A Server is an embedded NATS server that serves a folder. It syncs every write
// to disk before it is acknowledged.
type Server struct {
	ns    *server.Server
	lock  *os.File
	note  note
	fresh bool
	once  sync.Once
	done  chan struct{} // closed when it does not serve any more
	err   error         // why, if nobody has asked for it
	guard sync.WaitGroup
}

// guardEvery is how often a server sees that its folder is still the one it locked.
// Another process may lock what is at that place now and serve it, and its members
// would know nothing of ours.
const guardEvery = 500 * time.Millisecond

// startTime is how long a server may take to read its data.
const startTime = 30 * time.Second

// Serve runs the server of a folder, for others to connect to: by Embed and
// embed:DIR from this host, by nats:// from anywhere. It returns when it serves.
// listen is HOST:PORT; "" means where it served last, or a free port of
// 127.0.0.1. Beyond loopback it wants UserPassword or Token, and should have a
// Certificate. RootCA makes it ask clients for certificates.
func Serve(dir, listen string, opts ...Option) (*Server, error) {
	set, err := read("embed:"+dir, opts)
	if err != nil {
		return nil, err
	}
	if err := set.servable(); err != nil {
		return nil, err
	}
	if listen != "" {
		host, port, err := net.SplitHostPort(listen)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil || n == 0 {
			return nil, fmt.Errorf("rotanats: listen on %.80q: write HOST:PORT, such as 127.0.0.1:4222", listen)
		}
		if host == "" {
			listen = net.JoinHostPort("0.0.0.0", port)
		}
	}
	s, err := serve(set.place(), listen, set, true)
	if errors.Is(err, errServed) {
		n, _ := set.place().read()
		return nil, fmt.Errorf("rotanats: the folder %s is served by process %d already, at %s", dir, n.Pid, n.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("rotanats: serve: %w", err)
	}
	return s, nil
}

// servable refuses what would serve more openly than was meant, or nobody at all.
// Half of what clients sign in with is not "no password".
func (s *settings) servable() error {
	switch {
	case (s.user == "") != (s.password == ""):
		return errors.New("rotanats: serve with a user and a password: give both, and neither empty")
	case s.creds != "":
		return errors.New("rotanats: serve with credentials: they are for clients; give a user and password or a token")
	case s.secure && s.tls == nil && s.cert == "":
		return errors.New("rotanats: serve with a CA and no certificate: nobody could connect; give Certificate as well")
	case s.tls != nil && len(s.tls.Certificates) == 0 && s.tls.GetCertificate == nil && s.tls.GetConfigForClient == nil:
		return errors.New("rotanats: serve with TLS and no certificate in it: nobody could connect")
	}
	return nil
}

// serve takes the folder and runs its server. told: by someone who knows how
// clients are to sign in.
func serve(f folder, listen string, set *settings, told bool) (*Server, error) {
	lock, err := f.lock()
	if err != nil {
		return nil, err
	}
	s := &Server{lock: lock, done: make(chan struct{})}
	if err := s.start(f, listen, set, told); err != nil {
		lock.Close()
		return nil, err
	}
	s.guard.Go(func() { s.watch(f) })
	return s, nil
}

// watch ends the server when its folder was taken away.
func (s *Server) watch(f folder) {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
			if err := f.still(s.lock); err != nil {
				s.end(fmt.Errorf("rotanats: %w", err))
				return
			}
		}
	}
}

func (s *Server) start(f folder, listen string, set *settings, told bool) (err error) {
	if err := f.data(); err != nil {
		return err
	}
	if s.note, s.fresh, err = f.address(listen); err != nil {
		return err
	}
	auth := set.user != "" || set.token != ""
	switch {
	case s.note.Guarded && !told:
		return fmt.Errorf("the folder %s was served with a password at %s, and has to be again: run rota serve", f, s.note.Address)
	case told && !auth && !loopback(s.note.Address):
		return fmt.Errorf("%s can be reached from other hosts: give a user and password or a token", s.note.Address)
	}
	if err := set.guessable(s.note.Address); err != nil {
		return err
	}
	set.warnExposed()
	if told && !set.secure && !loopback(s.note.Address) {
		set.log.Warn("passwords, tokens and records travel unencrypted: serve with a certificate", "address", s.note.Address)
	}
	if told {
		s.note.Guarded = auth || set.secure
	}
	s.note.Open = told && !auth // of this server, and not of the next
	s.note.Pid = os.Getpid()
	opts, err := s.options(f, set)
	if err != nil {
		return err
	}
	if err := f.write(s.note); err != nil {
		return f.explain(err)
	}
	if s.ns, err = server.NewServer(opts); err != nil {
		return err
	}
	said := &serverLog{log: set.log}
	s.ns.SetLoggerV2(said, false, false, false)
	s.ns.Start()
	ready := s.ns.ReadyForConnections(startTime)
	if err := said.failed(); err != nil || !ready {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
		return errors.Join(fmt.Errorf("the server of %s did not start", f), err)
	}
	return nil
}

func (s *Server) options(f folder, set *settings) (*server.Options, error) {
	host, port, err := net.SplitHostPort(s.note.Address)
	if err != nil {
		return nil, fmt.Errorf("the address %q in %s: %w", s.note.Address, f.path(noteFile), err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("the address %q in %s: %w", s.note.Address, f.path(noteFile), err)
	}
	o := &server.Options{
		ServerName: "rota-" + port, Host: host, Port: n, NoSigs: true, DisableJetStreamBanner: true,
		JetStream: true, StoreDir: f.dir, SyncAlways: true,
		MaxPayload: 8 << 20, WriteDeadline: 10 * time.Second,
	}
	if !s.note.Open {
		o.CustomClientAuthentication = &doorman{set, s.note.Token}
	}
	if set.secure {
		if o.TLSConfig, err = set.tlsConfig(); err != nil {
			return nil, err
		}
		o.TLSConfig.ClientCAs, o.TLSTimeout = o.TLSConfig.RootCAs, 5
		if o.TLSConfig.ClientCAs != nil {
			o.TLSVerify, o.TLSConfig.ClientAuth = true, tls.RequireAndVerifyClientCert
		}
		set.serveNewest(o.TLSConfig)
	}
	return o, nil
}

// doorman lets in who knows the folder's token, or what Serve was told.
type doorman struct {
	set    *settings
	folder secret
}

func (d *doorman) Check(c server.ClientAuthentication) bool {
	same := func(a, b string) bool { return b != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
	o := c.GetOpts()
	return same(o.Token, string(d.folder)) || same(o.Token, string(d.set.token)) ||
		same(o.Password, string(d.set.password)) && same(o.Username, d.set.user)
}

// Addr is where it serves: HOST:PORT.
func (s *Server) Addr() string { return s.note.Address }

// URL is its address for clients, without what they sign in with.
func (s *Server) URL() string { return "nats://" + s.note.Address }

// Fresh tells that it found nothing in the folder: there are no records that
// could have been forgotten.
func (s *Server) Fresh() bool { return s.fresh }

// Done is closed when it does not serve any more: after Close, or because its folder
// was removed or replaced.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err tells why it stopped by itself. It is nil before Done is closed.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close ends the server and gives the folder back.
func (s *Server) Close() error {
	s.end(nil)
	s.guard.Wait()
	return nil
}

func (s *Server) end(because error) {
	s.once.Do(func() {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
		s.lock.Close()
		s.err = because
		close(s.done)
	})
}

// serverLog keeps what the server could not start for.
type serverLog struct {
	log *slog.Logger
	mu  sync.Mutex
	bad error
}

func (l *serverLog) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bad
}

func (l *serverLog) say(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, fmt.Sprintf(format, v...), "from", "nats-server")
	}
}

func (l *serverLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	l.bad = errors.Join(l.bad, fmt.Errorf(format, v...))
	l.mu.Unlock()
	l.say(slog.LevelError, format, v)
}
func (l *serverLog) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }
func (l *serverLog) Warnf(format string, v ...any)   { l.say(slog.LevelWarn, format, v) }
func (l *serverLog) Errorf(format string, v ...any)  { l.say(slog.LevelError, format, v) }
func (l *serverLog) Debugf(format string, v ...any)  {}
func (l *serverLog) Tracef(format string, v ...any)  {}

// String names the server without secrets.
func (s *Server) String() string { return s.URL() }

// Format keeps secrets out of every verb.
func (s *Server) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
