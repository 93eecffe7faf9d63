package rotaetcd_test

import (
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaetcd"
	"github.com/rota-dev/rota/rotatest"
)

// TestOneServer has the tests that do no harm to their server.
func TestOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartEtcd(t)
	url := "etcd://" + s.Addr()
	t.Run("class", func(t *testing.T) {
		t.Parallel()
		classIs(t, url, rota.ClassB, rota.ClassB)
		classIs(t, url+"?nodes=3", rota.ClassA, rota.ClassB) // the server knows better
	})
	t.Run("no identity", func(t *testing.T) {
		t.Parallel()
		if _, ok := rotaetcd.Store(url).(rota.Identifier); ok {
			t.Error("an etcd that was restored has no other name than before: it must not pretend to have one")
		}
	})
}

// TestCluster has the tests that do no harm to their cluster.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	t.Run("group", func(t *testing.T) {
		t.Parallel()
		rotatest.Group(t, func(*testing.T) rota.Store { return rotaetcd.Store(c.url("group")) })
	})
	t.Run("class", func(t *testing.T) {
		t.Parallel()
		classIs(t, c.url("class"), rota.ClassB, rota.ClassA)
		classIs(t, "etcd://"+c.Nodes[0].Addr(), rota.ClassB, rota.ClassA) // the URL need not name all
	})
}

// TestClassByWhatTheServerTells asks nodes that tell of a learner, or nothing.
func TestClassByWhatTheServerTells(t *testing.T) {
	t.Parallel()
	learning, closed := newFake(t), newFake(t)
	learning.nodes = func() (*pb.MemberListResponse, error) {
		return &pb.MemberListResponse{Members: []*pb.Member{{ID: 1}, {ID: 2}, {ID: 3, IsLearner: true}}}, nil
	}
	closed.nodes = func() (*pb.MemberListResponse, error) {
		return nil, status.Error(codes.PermissionDenied, "etcdserver: permission denied")
	}
	classIs(t, urlOf(learning), rota.ClassB, rota.ClassB)
	classIs(t, urlOf(closed), rota.ClassB, rota.ClassB)
	classIs(t, urlOf(closed)+"?nodes=3", rota.ClassA, rota.ClassA)
}

// classIs checks the class before and after the first call.
func classIs(t *testing.T, url string, before, after rota.Class) {
	t.Helper()
	s := rotaetcd.Store(url)
	defer s.Close()
	class := s.(rota.Classifier)
	if c := class.Class(); c != before {
		t.Errorf("%s: class %v before the first call, want %v", url, c, before)
	}
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, rota.ErrNotFound) {
		t.Fatal(err)
	}
	if c := class.Class(); c != after {
		t.Errorf("%s: class %v after the first call, want %v", url, c, after)
	}
}
