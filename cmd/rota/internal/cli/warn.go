package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/rota-dev/rota/internal/plain"
)

// Warnings is a handler for what libraries log: it tells warnings and errors in
// sentences, and nothing else. tell may be called from any goroutine.
func Warnings(tell func(at time.Time, text string)) slog.Handler { return warnings{tell: tell} }

// warnTo tells warnings on w, a line each with its time.
func warnTo(w io.Writer) slog.Handler {
	return Warnings(func(at time.Time, text string) {
		fmt.Fprintf(w, "%s  %s\n", at.Format(time.TimeOnly+".000"), text) // one write, so that lines do not mix
	})
}

type warnings struct {
	tell  func(at time.Time, text string)
	attrs []slog.Attr
}

func (h warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (h warnings) Handle(_ context.Context, r slog.Record) error {
	attrs := h.attrs[:len(h.attrs):len(h.attrs)]
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	level := "warning: "
	if r.Level >= slog.LevelError {
		level = "error: "
	}
	h.tell(r.Time, level+sentence(r.Message, attrs))
	return nil
}

func (h warnings) WithAttrs(as []slog.Attr) slog.Handler {
	return warnings{h.tell, append(h.attrs[:len(h.attrs):len(h.attrs)], as...)}
}

// WithGroup keeps the names as they are: people read them.
func (h warnings) WithGroup(string) slog.Handler { return h }

// sentence adds to a message what it is about, in parentheses, then the cause.
func sentence(message string, attrs []slog.Attr) string {
	var about []string
	cause, more := "", ""
	for _, a := range attrs {
		value := plain.Text(a.Value.String())
		switch a.Key {
		case "err", "says":
			cause += ": " + value
		case "more":
			more = " (and " + value + " more like it)"
		default:
			about = append(about, a.Key+" "+value)
		}
	}
	if len(about) > 0 {
		message += " (" + strings.Join(about, ", ") + ")"
	}
	return plain.Text(message) + cause + more
}
