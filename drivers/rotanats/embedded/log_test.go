package embedded

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
)

// TestServerLogIsPaced: what nats-server repeats is logged once in a while, with the
// number of lines left out; what is new is logged at once, and no line is forged.
func TestServerLogIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var set address.Settings
		set.Log = slog.New(slog.NewTextHandler(&out, nil))
		l := natsLog{log: serverLog(&set), dir: "d"}
		for i := range 100 {
			l.Errorf("127.0.0.1:%d - cid:%d - authentication error", 4000+i, i)
		}
		l.Warnf("another\nlevel=ERROR msg=forged")
		if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), `another\nlevel=ERROR`) {
			t.Errorf("%d lines:\n%s", n, &out)
		}
		time.Sleep(sayEvery)
		out.Reset()
		l.Errorf("127.0.0.1:5000 - cid:7 - authentication error")
		if !strings.Contains(out.String(), "authentication error") || !strings.Contains(out.String(), "more=99") {
			t.Errorf("after a while: %s", &out)
		}
	})
}

// TestServerLogForgetsTheOldest: endlessly many different lines do not use up the memory.
func TestServerLogForgetsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacer{said: map[string]*saying{}}
		for i := range 3 * mostSaid {
			if _, due := p.due(strings.Repeat("x", i), time.Now()); !due {
				t.Fatalf("line %d is new, and is left out", i)
			}
			time.Sleep(time.Millisecond)
		}
		if _, due := p.due(strings.Repeat("x", 3*mostSaid-1), time.Now()); due || len(p.said) != mostSaid {
			t.Errorf("the last line is logged again, or %d lines are remembered", len(p.said))
		}
	})
}

// TestServerWarnsByDefault: without rotanats.Log warnings go to slog's default logger,
// and the rest nowhere.
func TestServerWarnsByDefault(t *testing.T) {
	var out bytes.Buffer
	former := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer slog.SetDefault(former)
	set, err := address.Read("embed:d")
	if err != nil {
		t.Fatal(err)
	}
	l := natsLog{log: serverLog(set), dir: "d"}
	l.Noticef("a notice")
	l.Warnf("Filestore [S] Recovering stream state from index errored: prior state file")
	l.Warnf("a warning")
	if text := out.String(); strings.Contains(text, "notice") || strings.Contains(text, "prior state") || !strings.Contains(text, `says="a warning"`) {
		t.Error(text)
	}
	if l.about("S") == "" {
		t.Error("a line about a stream is forgotten")
	}
}
