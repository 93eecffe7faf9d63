package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
)

// serverLog returns where a server logs to: the logger of rotanats.Log, or slog's
// default one, which gets warnings and errors only. A server that says nothing hides
// why its clients wait. What repeats is paced.
func serverLog(set *address.Settings) *slog.Logger {
	p := &pacer{said: map[string]*saying{}}
	if set.Logged() {
		return slog.New(paced{set.Log.Handler(), p, slog.LevelDebug})
	}
	return slog.New(paced{slog.Default().Handler(), p, slog.LevelWarn})
}

// Lines that differ in numbers only, such as those of a client that is refused again and
// again, count as the same. The same line is logged once per sayEvery, with the number
// of those left out; of at most mostSaid different ones it is known when they were
// logged.
const (
	sayEvery = time.Minute
	mostSaid = 256
)

// paced is a handler that leaves out what was logged lately.
type paced struct {
	slog.Handler
	*pacer
	least slog.Level
}

type pacer struct {
	mu   sync.Mutex
	said map[string]*saying
}

type saying struct {
	at   time.Time
	more int // left out since
}

func (h paced) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.least && h.Handler.Enabled(ctx, l)
}

func (h paced) WithAttrs(as []slog.Attr) slog.Handler {
	return paced{h.Handler.WithAttrs(as), h.pacer, h.least}
}

func (h paced) WithGroup(name string) slog.Handler {
	return paced{h.Handler.WithGroup(name), h.pacer, h.least}
}

func (h paced) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		more, due := h.due(kind(r), r.Time)
		if !due {
			return nil
		}
		if more > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("more", more))
		}
	}
	return h.Handler.Handle(ctx, r)
}

// due tells whether a line is to be logged, and how many were left out.
func (p *pacer) due(kind string, now time.Time) (more int, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.said[kind]
	if last != nil && now.Sub(last.at) < sayEvery {
		last.more++
		return 0, false
	}
	if last == nil && len(p.said) >= mostSaid {
		p.forget()
	}
	p.said[kind] = &saying{at: now}
	if last == nil {
		return 0, true
	}
	return last.more, true
}

// forget makes room: the line that was logged longest ago may be logged again early.
func (p *pacer) forget() {
	var oldest string
	for k, s := range p.said {
		if o := p.said[oldest]; o == nil || s.at.Before(o.at) {
			oldest = k
		}
	}
	delete(p.said, oldest)
}

// kind is a line without its numbers.
func kind(r slog.Record) string {
	var b strings.Builder
	b.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteByte(' ')
		b.WriteString(a.Value.String())
		return true
	})
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, b.String())
}

// natsLog writes the log lines of nats-server, and keeps fatal errors: why it did not
// start. A line is a value and not the message: clients can choose a part of it, and
// handlers of slog escape values.
type natsLog struct {
	log *slog.Logger
	dir string
	mu  sync.Mutex
	bad error

	heard []string // the first warnings
}

// mostHeard is how many warnings are kept.
const mostHeard = 100

func (l *natsLog) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bad
}

func (l *natsLog) say(level slog.Level, format string, v []any) {
	text := strings.TrimSpace(fmt.Sprintf(format, v...))
	if level >= slog.LevelWarn {
		l.mu.Lock()
		if len(l.heard) < mostHeard {
			l.heard = append(l.heard, text)
		}
		l.mu.Unlock()
	}
	if harmless(text) {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, "nats-server", "folder", l.dir, "says", text)
}

// harmless tells whether a line says no more than that the last server of the folder did
// not end in order: its summary of a stream is older than the stream.
func harmless(text string) bool {
	return strings.HasSuffix(text, "Stream state outdated, last block has additional entries, will rebuild") ||
		strings.HasSuffix(text, "Stream state outdated, found extra blocks, will rebuild") ||
		strings.HasSuffix(text, "Recovering stream state from index errored: prior state file")
}

func (l *natsLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	l.bad = errors.Join(l.bad, fmt.Errorf(format, v...))
	l.mu.Unlock()
	l.say(slog.LevelError, format, v)
}
func (l *natsLog) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }
func (l *natsLog) Warnf(format string, v ...any)   { l.say(slog.LevelWarn, format, v) }
func (l *natsLog) Errorf(format string, v ...any)  { l.say(slog.LevelError, format, v) }
func (l *natsLog) Debugf(format string, v ...any)  {}
func (l *natsLog) Tracef(format string, v ...any)  {}
