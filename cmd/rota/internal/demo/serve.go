package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/spf13/cobra"
)

func ServeCmd() *cobra.Command {
	var dir, listen, user, passwordFile, tokenFile, cert, key, ca, scratch string
	var tether, open bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the embedded NATS server alone, for members to join",
		Long: `Serve runs a NATS server with JetStream in a folder: a store for groups and a broker
for their messages. Members of this machine find it by the folder and connect through a
socket in it: nobody can who may not enter the folder. Every write is on disk before it
is acknowledged. It is one server: while it is down, nobody can renew a lease.

With --listen others can connect by TCP: with the user and password, or the token,
that it is given, or else with the key in the folder, nats://HOST:PORT?nkey=DIR/rota.nkey.
Beyond loopback it wants a user and password, or a token, and should have a
certificate; with --ca it also asks members for theirs.`,
		Example: `  rota serve
  rota serve --dir /var/lib/rota --listen 0.0.0.0:4222 --token-file token --cert server.pem --key server.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			how := url.Values{}
			var who *url.Userinfo
			password, err := secretFile("password-file", passwordFile)
			if err != nil {
				return err
			}
			token, err := secretFile("token-file", tokenFile)
			if err != nil {
				return err
			}
			if (user == "") != (password == "") {
				return cli.Usagef("--user and --password-file: give both or none")
			}
			if user != "" {
				who = url.UserPassword(user, password)
			}
			if token != "" {
				how.Set("token", token)
			}
			if (cert == "") != (key == "") {
				return cli.Usagef("--cert and --key: give both or none")
			}
			if cert != "" {
				how.Set("cert", cert)
				how.Set("key", key)
			}
			if ca != "" {
				how.Set("ca", ca)
			}
			if listen == "" && (user != "" || token != "" || cert != "" || ca != "") {
				return cli.Usagef("--user, --token-file, --cert and --ca are for clients that come by TCP: add --listen HOST:PORT")
			}
			if open && (user != "" || token != "" || ca != "") {
				return cli.Usagef("--open and a way to sign in: give one of them")
			}
			if err := checkListen(listen, open); err != nil {
				return err
			}
			if host, _, _ := net.SplitHostPort(listen); listen != "" && !open && user == "" && token == "" && beyond(host) {
				return cli.Usagef("--listen %s: other hosts could connect: give --user and --password-file, or --token-file, or listen on 127.0.0.1", listen)
			}
			if open {
				how.Set("open", "true")
			}
			s, err := embedded.Serve(connect.FolderURL("embed:"+dir), listenURL(who, listen, how))
			if err != nil {
				return connect.Words(err)
			}
			defer s.Close()
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "serving %s%s at %s; Ctrl-C ends it\n", dir, openly(open), whereServed(dir, s))
			if s.Addr() != "" && !open && user == "" && token == "" {
				fmt.Fprintf(w, "by TCP, with the key of the folder: --store '%s'\n", withKey(dir, s))
			}
			fmt.Fprintf(w, "a member, from this folder: %s run%s --group G --source none:?partitions=8 --own 'exec:sleep 1000'\n", self(), dirFlag(dir))
			ctx := cmd.Context()
			if tether {
				ctx = lastToGo(ctx, cmd.InOrStdin())
			}
			select {
			case <-ctx.Done():
			case <-s.Done(): // its folder was taken away
				return connect.Words(s.Err())
			}
			if scratch != "" && cmd.Context().Err() == nil { // nobody else is left to do it, or to read a word
				s.Close()
				return Discard(scratch)
			}
			fmt.Fprintln(w, "ended")
			return nil
		},
	}
	fl := cmd.Flags()
	fl.Var(connect.Dir(&dir), "dir", "the folder for its data")
	fl.StringVar(&listen, "listen", "", "HOST:PORT for clients that come by TCP (default: none can)")
	fl.BoolVar(&open, "open", false, "let in every user of this machine by --listen, without a secret")
	fl.StringVar(&user, "user", "", "who may connect")
	fl.StringVar(&passwordFile, "password-file", "", "a file with the user's password")
	fl.StringVar(&tokenFile, "token-file", "", "a file with a token that lets clients in")
	fl.StringVar(&cert, "cert", "", "the server's certificate, a PEM file")
	fl.StringVar(&key, "key", "", "and its key")
	fl.StringVar(&ca, "ca", "", "let in clients only whose certificate this PEM file vouches for")
	fl.BoolVar(&tether, "tether", false, "end when standard input does, after those who hang on the same tether: for supervisors")
	fl.StringVar(&scratch, "scratch", "", "a folder to remove when the tether is cut")
	fl.MarkHidden("tether")
	fl.MarkHidden("scratch")
	return cmd
}

// lastToGo ends a while after stdin: members whose supervisor is gone leave at
// once, and need the server for that.
func lastToGo(ctx context.Context, stdin io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, stdin)
		time.Sleep(2 * time.Second)
		cancel()
	}()
	return ctx
}

// Discard removes a folder that others may still be writing to.
func Discard(dir string) (err error) {
	for range 50 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// dirFlag is what a command needs to find a folder: nothing, if it is the usual one.
func dirFlag(dir string) string {
	if dir == connect.DefaultDir {
		return ""
	}
	return " --dir " + dir
}

// whereServed tells where a server can be reached.
func whereServed(dir string, s *embedded.Server) string {
	at := filepath.Join(dir, "rota.sock")
	if s.Addr() != "" {
		at += " and " + s.URL()
	}
	return at
}

// openly is said first of a server that asks nobody for anything.
func openly(open bool) string {
	if !open {
		return ""
	}
	return ", OPEN to every user of this machine,"
}

// withKey is the URL for clients that come by TCP and may read the folder.
func withKey(dir string, s *embedded.Server) string {
	return s.URL() + "?nkey=" + strings.ReplaceAll(url.QueryEscape(filepath.Join(dir, "rota.nkey")), "%2F", "/")
}

// listenURL is where a server listens, and how clients sign in; "" for nowhere.
func listenURL(who *url.Userinfo, listen string, how url.Values) string {
	if listen == "" {
		return ""
	}
	if strings.HasPrefix(listen, ":") {
		listen = "0.0.0.0" + listen
	}
	if who != nil {
		password, _ := who.Password()
		listen = escaped(who.Username()) + ":" + escaped(password) + "@" + listen
	}
	return "nats://" + listen + "?" + how.Encode()
}

// escaped has no character that means anything in a URL, or in a list of servers.
func escaped(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// checkListen refuses what is not HOST:PORT, and openness that nobody could see.
func checkListen(listen string, open bool) error {
	if open && listen == "" {
		return cli.Usagef("--open is about clients that come by TCP: add --listen HOST:PORT")
	}
	host, port, err := net.SplitHostPort(listen)
	if strings.ContainsFunc(host, inNoHost) {
		err = errors.New("no host")
	}
	if n, bad := strconv.ParseUint(port, 10, 16); listen != "" && (err != nil || bad != nil || n == 0) {
		return cli.Usagef("--listen %q: want HOST:PORT, such as 127.0.0.1:4222", listen)
	}
	return nil
}

// inNoHost tells which characters would say more than a host in the URL that it is
// put into: a user, a second server, a parameter.
func inNoHost(r rune) bool { return r <= ' ' || strings.ContainsRune("@,/?#%", r) }

// secretFile reads a secret: those do not belong on a command line, which all
// users of a machine can see.
func secretFile(flag, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", cli.Usagef("--%s: %v", flag, err)
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return "", cli.Usagef("--%s: %s is empty", flag, file)
	}
	return s, nil
}
