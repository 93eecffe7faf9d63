package rotaetcd

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
)

// A node is one server of the cluster. It has a connection of its own, which the first
// call makes: a connection that chose among the servers by itself would send every third
// call to a frozen one, and nothing could be known about the node behind a watch.
type node struct {
	addr    string
	set     *settings
	conn    *grpc.ClientConn
	kv      pb.KVClient
	watch   pb.WatchClient
	cluster pb.ClusterClient
	auth    pb.AuthClient

	signing chan struct{} // has room for one: the call that fills it signs in

	mu     sync.Mutex
	token  string
	signed bool  // the token is the newest; it is empty while the server asks for none
	failed error // the last failure to reach the node; nil since it answered
}

// Timeouts of a connection.
const (
	dialTime       = 2 * time.Second
	redialAfter    = 50 * time.Millisecond
	redialAtMost   = 300 * time.Millisecond // calls fail meanwhile, also those to a node that is back
	keepaliveEvery = 10 * time.Second       // an etcd server refuses more than one in 5 s
	keepaliveTime  = 3 * time.Second
)

func newNode(addr string, set *settings) (*node, error) {
	secure := insecure.NewCredentials()
	if set.Secure {
		secure = freshTLS{credentials.NewTLS(nil), set}
	}
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(secure),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(), // a repeated write would be answered with a conflict
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: redialAfter, Multiplier: 1.6, Jitter: 0.5, MaxDelay: redialAtMost},
			MinConnectTimeout: dialTime,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveEvery, Timeout: keepaliveTime}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)), // a list may be large
	)
	if err != nil {
		return nil, fmt.Errorf("rotaetcd: node %s: %w", addr, err)
	}
	return &node{addr: addr, set: set, conn: conn,
		kv: pb.NewKVClient(conn), watch: pb.NewWatchClient(conn), cluster: pb.NewClusterClient(conn), auth: pb.NewAuthClient(conn),
		signing: make(chan struct{}, 1)}, nil
}

// connected tells whether a request would be sent at once.
func (n *node) connected() bool { return n.conn.GetState() == connectivity.Ready }

// freshTLS reads the certificate files for every connection.
type freshTLS struct {
	credentials.TransportCredentials
	set *settings
}

func (f freshTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, err := f.set.TLSConfig()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(c).ClientHandshake(ctx, authority, raw)
}

func (f freshTLS) Clone() credentials.TransportCredentials { return f }

// ask makes one request as the user of the URL. If the server does not know the token
// any more, it has not done what was asked: the request is made once more with a new one.
func (n *node) ask(ctx context.Context, request func(context.Context) error) error {
	signed, token, err := n.signIn(ctx)
	if err != nil {
		return notSent{err}
	}
	err = request(signed)
	if n.set.User == "" || !isAny(err, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCUserEmpty) {
		return err
	}
	n.forget(token)
	if signed, _, err = n.signIn(ctx); err != nil {
		return notSent{err}
	}
	return request(signed)
}

// forget makes the next call sign in, unless another has got a newer token meanwhile.
func (n *node) forget(token string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.signed = n.signed && n.token != token
}

// signIn returns a ctx with the token of the user, and the token. It asks the server for
// one if there is none.
func (n *node) signIn(ctx context.Context) (context.Context, string, error) {
	if n.set.User == "" {
		return ctx, "", nil
	}
	select {
	case n.signing <- struct{}{}:
		defer func() { <-n.signing }()
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	n.mu.Lock()
	token, signed := n.token, n.signed
	n.mu.Unlock()
	if !signed {
		var err error
		if token, err = n.authenticate(ctx); err != nil {
			return nil, "", err
		}
		n.mu.Lock()
		n.token, n.signed = token, true
		n.mu.Unlock()
	}
	if token == "" {
		return ctx, token, nil
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token), token, nil
}

// authenticate returns a new token. It is empty if the server has authentication turned
// off, which administrators do to mend things: that keeps nobody out.
func (n *node) authenticate(ctx context.Context) (string, error) {
	password, err := n.set.ReadPassword()
	if err != nil {
		return "", err
	}
	r, err := n.auth.Authenticate(ctx, &pb.AuthenticateRequest{Name: n.set.User, Password: string(password)})
	if is(err, rpctypes.ErrGRPCAuthNotEnabled) {
		n.set.Log.Warn("etcd has authentication turned off: anybody may write; the URL's user has no effect", "node", n.addr)
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return r.Token, nil
}

// note remembers why the node could not be reached, for the error of a call that only
// ran out of time.
func (n *node) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = err
}

func (n *node) lastFailure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failed
}
