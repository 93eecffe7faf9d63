package rotaactive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rota-dev/rota"
)

// The broker's plugin for statistics answers a message to one of these queues. It says
// nothing of a queue that does not exist; the answer about the broker itself comes last.
const (
	askQueue  = "ActiveMQ.Statistics.Destination."
	askBroker = "ActiveMQ.Statistics.Broker"
)

// A meter has what is known of the broker's plugin.
type meter struct {
	mu      sync.Mutex
	err     error // of the last question, if it had no answer
	next    time.Time
	missing int // answers in a row
}

// Where the plugin is missing, the questions stay in queues of the broker until they
// expire. So they are few: the pause between them grows up to mostPauseAsking.
const (
	answerTime       = 10 * time.Second
	firstPauseAsking = 2 * time.Second
	mostPauseAsking  = time.Minute
)

// silence is the error that is known without a question.
func (m *meter) silence() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil && time.Now().Before(m.next) {
		return m.err
	}
	return nil
}

// heard notes the result of a question.
func (m *meter) heard(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !errors.Is(err, errNoStatistics) {
		m.err, m.missing = nil, 0
		return
	}
	m.err, m.next = err, time.Now().Add(min(firstPauseAsking<<min(m.missing, 10), mostPauseAsking))
	m.missing++
}

// counts are the counters of one queue.
type counts struct {
	size, arrived, consumers int64
}

var errNoStatistics = errors.New("the broker does not answer questions for statistics: add <plugins><statisticsBrokerPlugin/></plugins> to the <broker> of its activemq.xml; over STOMP it also needs XStream and Jettison among its jars")

// Read implements rota.Meter by the broker's plugin for statistics.
func (s *source) Read(ctx context.Context, partitions []string) ([]rota.Reading, error) {
	all, broker, err := s.statistics(ctx, partitions)
	if err != nil {
		return nil, named(err)
	}
	out := make([]rota.Reading, len(partitions))
	for i, p := range partitions {
		c := all[p] // zero for a queue that nobody has used since the broker began
		out[i] = rota.Reading{Partition: p, Arrived: uint64(max(c.arrived, 0)), Backlog: max(c.size, 0), Epoch: broker}
	}
	return out, nil
}

// statistics asks for the counters of queues. The broker's name changes with each start,
// and its counters begin anew then.
func (s *source) statistics(ctx context.Context, queues []string) (all map[string]counts, broker string, err error) {
	if err := s.meter.silence(); err != nil {
		return nil, "", err
	}
	c, err := s.connected(ctx, s.side)
	if err != nil {
		return nil, "", err
	}
	all, broker, err = askCounts(ctx, c, queues)
	s.meter.heard(err)
	return all, broker, err
}

func askCounts(ctx context.Context, c client, queues []string) (all map[string]counts, broker string, err error) {
	brief, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var questions []string
	for _, q := range queues {
		questions = append(questions, askQueue+q)
	}
	all = map[string]counts{}
	err = c.ask(brief, append(questions, askBroker), func(answer map[string]any) bool {
		name, ofQueue := strings.CutPrefix(str(answer["destinationName"]), "queue://")
		if ofQueue {
			all[name] = counts{number(answer["size"]), number(answer["enqueueCount"]), number(answer["consumerCount"])}
			return false
		}
		broker = str(answer["brokerId"])
		return true
	})
	select {
	case <-c.done(): // a broker without XStream closes the connection instead of an answer
		err = fmt.Errorf("%w (%w)", errNoStatistics, c.err())
	default:
		if err != nil && brief.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w (no answer within %v)", errNoStatistics, answerTime)
		}
	}
	return all, broker, err
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

// number returns a number of any type as the broker sends them.
func number(v any) int64 {
	switch n := v.(type) {
	case float64:
		return int64(n)
	case int64:
		return n
	case int32:
		return int64(n)
	case int:
		return int64(n)
	case uint64:
		return int64(n)
	}
	return 0
}

// A queue that brings nothing may be one that the broker gives to another consumer. The
// first look is after lonelyTime, each further one after twice the time.
const (
	lonelyTime = 10 * time.Second
	mostLonely = 5 * time.Minute
)

// conditionForeign is the condition of a partition whose queue has consumers
// besides its owner.
const conditionForeign rota.Condition = "foreign-consumer"

// A look is a goroutine that looks for other consumers, until end is called.
type look struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func (l *look) end() {
	l.cancel()
	<-l.done
}

// lookForOthers reports other consumers of a queue, as far as the broker tells.
func (s *source) lookForOthers(ctx context.Context, own rota.Ownership) *look {
	ctx, cancel := context.WithCancel(ctx)
	l := &look{cancel, make(chan struct{})}
	go func() {
		defer close(l.done)
		for pause := lonelyTime; ; pause = min(2*pause, mostLonely) {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			all, _, err := s.statistics(ctx, []string{own.Partition()})
			if c := all[own.Partition()]; err == nil && c.consumers > 1 {
				own.Tell(conditionForeign, fmt.Sprintf("the queue has %d consumers besides its owner, and the owner is given none of its %d messages: end those consumers, or choose another queue", c.consumers-1, c.size))
			}
		}
	}()
	return l
}
