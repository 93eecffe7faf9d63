package rota_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/rotatest"
)

// A ledger is a sink that checks tokens. For each partition it keeps the token and the
// session of the last write, in the same transaction as the write; in a database that
// is one more column, or one more row, and a condition.
type ledger struct {
	mu   sync.Mutex
	last map[string]writer
}

type writer struct {
	token   rota.Token
	session string
}

var errFormerOwner = errors.New("refused: a former owner")

// Save refuses a token lower than one it has seen, and an equal token of another
// session. So no write of a former owner that is still in flight is accepted, not even
// from a process that was stopped in the middle of this call.
func (l *ledger) Save(msg rota.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.last[msg.Partition]
	if msg.Token < was.token || msg.Token == was.token && msg.Session != was.session {
		return errFormerOwner
	}
	l.last[msg.Partition] = writer{msg.Token, msg.Session}
	return nil
}

// Two members own a queue, one after the other. Then a late write of the first one
// arrives.
func ExampleToken() {
	sink := &ledger{last: map[string]writer{}}
	store := rotatest.NewMemStore()
	queues := rotatest.NewMemSource(0, "accounts")

	var saved []rota.Message
	for _, name := range []string{"first", "second"} {
		queues.Publish("accounts", []byte("by the "+name))
		ctx, stop := context.WithCancel(context.Background())
		m, err := rota.New(rota.Config{
			Group: "bank", Store: store, NewGroup: true, Source: queues, Name: name,
			Handle: func(ctx context.Context, msg rota.Message) error {
				defer stop()
				saved = append(saved, msg)
				fmt.Printf("%s: %v\n", msg.Value, sink.Save(msg))
				return nil
			},
		})
		if err != nil {
			log.Fatal(err)
		}
		if err := m.Run(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("%s, late: %v\n", saved[0].Value, sink.Save(saved[0]))

	twin := saved[1]
	twin.Session = "somebody else"
	fmt.Printf("with a token of another session: %v\n", sink.Save(twin))
	// Output:
	// by the first: <nil>
	// by the second: <nil>
	// by the first, late: refused: a former owner
	// with a token of another session: refused: a former owner
}
