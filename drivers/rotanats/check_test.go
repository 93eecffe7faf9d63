package rotanats

import (
	"fmt"
	"strings"
	"testing"
)

func TestSourcesAreChecked(t *testing.T) {
	for query, want := range map[string]string{
		"":                                  "needs a stream",
		"stream=a.b&subject=o.*":            `stream "a.b"`,
		"stream=S":                          `subject ""`,
		"stream=S&subject=o":                "one star",
		"stream=S&subject=*.*":              "one star",
		"stream=S&subject=o.>":              "one star",
		"stream=S&subject=o*":               "one star",
		"stream=S&subject=o.*&dead=x.*":     "without wildcards",
		"stream=S&subject=o.*&partitions=0": "a number from 1",
	} {
		if err := Source("nats://a?" + query).(*source).bad; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", query, err, want)
		}
	}
	if err := Source("nats://a?stream=S&subject=o.*").(*source).bad; err != nil {
		t.Error(err)
	}
}

// TestTheURLSaysWhatIsMeant checks that URLs which need a server, or are for one, are
// refused by a client.
func TestTheURLSaysWhatIsMeant(t *testing.T) {
	if _, err := Store("embed:"+t.TempDir()).Get(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "drivers/rotanats/embedded") {
		t.Errorf("embed: without a server: %v", err)
	}
	if err := Check("nats://a?open=true"); err == nil || !strings.Contains(err.Error(), "open") {
		t.Errorf("open of a client: %v", err)
	}
	if err := Served("nats://a"); err == nil || !strings.Contains(err.Error(), "folder:DIR") {
		t.Errorf("served: %v", err)
	}
}

func TestKeysBecomeSubjects(t *testing.T) {
	s := newStore(newLink("nats://a", nil), "b")
	for key, ok := range map[string]bool{
		"a": true, "a/b-c/_D": true, strings.Repeat("k", 128): true,
		"": false, "/a": false, "a/": false, "a//b": false, "a.b": false, "a*": false, ">": false, "a b": false, "ä": false, strings.Repeat("k", 129): false,
	} {
		if err := checkKey(key); (err == nil) != ok {
			t.Errorf("%q: %v", key, err)
		}
		if got := s.key(s.subject(key)); ok && got != key {
			t.Errorf("%q comes back as %q", key, got)
		}
	}
}

func FuzzAckInfo(f *testing.F) {
	f.Add("S", "C", uint64(1), uint64(2), uint64(3), int64(4), "$JS.ACK.S.C.1.2.3.4.5")
	f.Add("S", "C", uint64(0), uint64(1)<<63, uint64(3), int64(-4), "$JS.ACK.d.h.S.C.1.2.3.4.5.6")
	f.Fuzz(func(t *testing.T, stream, consumer string, tries, seq, delivery uint64, at int64, raw string) {
		readAckInfo(raw) // must not panic
		if strings.Contains(stream+consumer, ".") {
			return
		}
		want := ackInfo{tries, seq, delivery, at}
		for _, reply := range []string{
			fmt.Sprintf("$JS.ACK.%s.%s.%d.%d.%d.%d.7", stream, consumer, tries, seq, delivery, at),
			fmt.Sprintf("$JS.ACK._.hash.%s.%s.%d.%d.%d.%d.7.x", stream, consumer, tries, seq, delivery, at),
			fmt.Sprintf("$JS.ACK.domain.hash.%s.%s.%d.%d.%d.%d.7", stream, consumer, tries, seq, delivery, at),
		} {
			if got, err := readAckInfo(reply); err != nil || got != want {
				t.Errorf("%s is %v, %v; want %v", reply, got, err, want)
			}
		}
	})
}
