// Package test holds what needs real servers and other people's modules.
package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota/internal/servers"
	"github.com/rota-dev/rota/rotatest"
	"github.com/rota-dev/rota/test/kafka"
)

// A notebook is the least that every server can do: note a word for good, and
// tell all words noted so far. Each call connects anew.
type notebook interface {
	write(ctx context.Context, word string) error // nil once the server has confirmed it
	read(ctx context.Context) ([]string, error)   // and leaves them there
}

func TestRedisKeepsWhatItConfirmed(t *testing.T) { smoke(t, rotatest.StartRedis, redisBook) }
func TestEtcdKeepsWhatItConfirmed(t *testing.T) {
	smoke(t, func(t testing.TB) *rotatest.RealServer { return rotatest.StartEtcd(t) }, etcdBook)
}
func TestZooKeeperKeepsWhatItConfirmed(t *testing.T) {
	smoke(t, func(t testing.TB) *rotatest.RealServer { return rotatest.StartZooKeeper(t) }, zooKeeperBook)
}
func TestNATSKeepsWhatItConfirmed(t *testing.T)     { smoke(t, rotatest.StartNATS, natsBook) }
func TestRabbitMQKeepsWhatItConfirmed(t *testing.T) { smoke(t, rotatest.StartRabbitMQ, rabbitBook) }
func TestActiveMQKeepsWhatItConfirmed(t *testing.T) { smoke(t, rotatest.StartActiveMQ, activeBook) }
func TestKafkaKeepsWhatItConfirmed(t *testing.T)    { smoke(t, startKafka, kafkaBook) }

// startKafka runs a broker from the jars of test/kafka/pom.xml.
func startKafka(t testing.TB) *servers.Server {
	return rotatest.StartWith(t, func(ctx context.Context) (*servers.Server, error) {
		jars, err := kafka.Jars()
		if err != nil {
			return nil, err
		}
		return servers.Kafka(ctx, jars)
	})
}

// smoke takes a server through everything that can be done to one.
func smoke(t *testing.T, run func(testing.TB) *servers.Server, open func(*servers.Server) notebook) {
	t.Parallel()
	s := run(t)
	book := open(s)
	for _, step := range []struct {
		name string
		do   func(context.Context, *servers.Server, notebook) error
	}{
		{"kill", survivesKill},
		{"freeze", answersAfterThaw},
		{"restore", forgetsWhatCameAfterTheSnapshot},
	} {
		begun := time.Now()
		if err := step.do(t.Context(), s, book); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		t.Logf("%s took %v", step.name, time.Since(begun).Round(time.Millisecond))
	}
}

func survivesKill(ctx context.Context, s *servers.Server, book notebook) error {
	if err := book.write(ctx, "before"); err != nil {
		return err
	}
	if err := s.Kill(); err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	return expect(ctx, book, "before")
}

// answersAfterThaw also takes a snapshot of the frozen server: whether that is
// worth something, the next step shows.
func answersAfterThaw(ctx context.Context, s *servers.Server, book notebook) error {
	if err := s.Freeze(); err != nil {
		return err
	}
	answer := make(chan error, 1)
	go func() { answer <- book.write(ctx, "frozen") }()
	// That there is no answer can only be seen by waiting for one.
	select {
	case err := <-answer:
		return fmt.Errorf("a frozen server answered: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := s.Thaw(); err != nil {
		return err
	}
	if err := <-answer; err != nil {
		return fmt.Errorf("after the thaw: %w", err)
	}
	return expect(ctx, book, "before", "frozen")
}

func forgetsWhatCameAfterTheSnapshot(ctx context.Context, s *servers.Server, book notebook) error {
	if err := s.Freeze(); err != nil {
		return err
	}
	snap, err := s.Snapshot()
	if err := errors.Join(err, s.Thaw()); err != nil {
		return err
	}
	if err := book.write(ctx, "later"); err != nil {
		return err
	}
	if err := expect(ctx, book, "before", "frozen", "later"); err != nil {
		return err
	}
	if err := s.Stop(ctx); err != nil {
		return err
	}
	if err := s.Restore(snap); err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	return expect(ctx, book, "before", "frozen")
}

func expect(ctx context.Context, book notebook, want ...string) error {
	got, err := book.read(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("it has %q, want %q", got, want)
	}
	return nil
}

// TestWipedServerIsNoticed makes sure that the tests above can fail.
func TestWipedServerIsNoticed(t *testing.T) {
	t.Parallel()
	s := rotatest.StartRedis(t)
	book := redisBook(s)
	err := survivesKill(t.Context(), s, wiper{book, s})
	if err == nil || !strings.Contains(err.Error(), `it has [], want ["before"]`) {
		t.Errorf("after the loss of all data: %v", err)
	}
}

// wiper removes the data as soon as it is written.
type wiper struct {
	notebook
	s *servers.Server
}

func (w wiper) write(ctx context.Context, word string) error {
	if err := w.notebook.write(ctx, word); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(w.s.Dir, "data", "appendonlydir"))
}

// TestNATSClusterOutlivesANode kills one node of three; the data stays, and so
// does the right to write.
func TestNATSClusterOutlivesANode(t *testing.T) {
	t.Parallel()
	nodes := rotatest.StartNATSCluster(t, 3)
	book := natsClusterBook(nodes)
	if err := book.write(t.Context(), "all"); err != nil {
		t.Fatal(err)
	}
	if err := nodes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := book.write(t.Context(), "two"); err != nil {
		t.Fatalf("with a node of 3 dead: %v", err)
	}
	if err := nodes[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := nodes[0].Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := nodes[1].Kill(); err != nil { // the one that is back makes the majority
		t.Fatal(err)
	}
	if err := expect(t.Context(), book, "all", "two"); err != nil {
		t.Fatalf("with the first node back and the second dead: %v", err)
	}
}
