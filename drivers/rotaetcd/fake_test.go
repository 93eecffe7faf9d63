package rotaetcd_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// A fake is a node that answers as a test wants.
type fake struct {
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer
	pb.UnimplementedClusterServer
	addr   string
	server *grpc.Server

	watch func(pb.Watch_WatchServer) error // nil: nothing happens
	nodes func() (*pb.MemberListResponse, error)

	mu     sync.Mutex
	frozen bool // reads get no answer
	txns   int
	txn    func(context.Context) (*pb.TxnResponse, error) // the answers to writes; nil: they succeed
}

func newFake(t *testing.T) *fake {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: l.Addr().String(), server: grpc.NewServer()}
	pb.RegisterKVServer(f.server, f)
	pb.RegisterWatchServer(f.server, f)
	pb.RegisterClusterServer(f.server, f)
	go f.server.Serve(l)
	t.Cleanup(f.server.Stop)
	return f
}

// urlOf is the address of fakes.
func urlOf(fakes ...*fake) string {
	var hosts []string
	for _, f := range fakes {
		hosts = append(hosts, f.addr)
	}
	return "etcd://" + strings.Join(hosts, ",")
}

// wrote is the answer to a write that succeeded, conflict to one that did not.
func wrote(rev int64) *pb.TxnResponse {
	return &pb.TxnResponse{Header: &pb.ResponseHeader{Revision: rev}, Succeeded: true}
}

func conflict() *pb.TxnResponse { return &pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 9}} }

// hang answers when the client has given up, as a frozen server does.
func hang(ctx context.Context) (*pb.TxnResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (f *fake) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if len(r.Compare) == 0 { // a list
		empty := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{}}}
		return &pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 5}, Succeeded: true, Responses: []*pb.ResponseOp{empty, empty}}, nil
	}
	f.mu.Lock()
	f.txns++
	txn := f.txn
	f.mu.Unlock()
	if txn == nil {
		return wrote(7), nil
	}
	return txn(ctx)
}

// writes returns how many writes have reached the node.
func (f *fake) writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.txns
}

// answer changes the answers to writes.
func (f *fake) answer(txn func(context.Context) (*pb.TxnResponse, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.txn = txn
}

// freeze makes the node silent.
func (f *fake) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen, f.txn = true, hang
}

func (f *fake) Range(ctx context.Context, _ *pb.RangeRequest) (*pb.RangeResponse, error) {
	f.mu.Lock()
	frozen := f.frozen
	f.mu.Unlock()
	if frozen {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: 5}}, nil
}

func (f *fake) Watch(s pb.Watch_WatchServer) error {
	if f.watch == nil {
		<-s.Context().Done()
		return nil
	}
	return f.watch(s)
}

// MemberList returns the nodes of the cluster, which etcd calls members.
func (f *fake) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if f.nodes != nil {
		return f.nodes()
	}
	return &pb.MemberListResponse{Members: []*pb.Member{{ID: 1}, {ID: 2}, {ID: 3}}}, nil
}
