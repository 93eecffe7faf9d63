package rotakafka_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotakafka"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct{ url, says string }{
		{"kafka://a?topic=t", ""},
		{"kafka://a:1,b:2,[::1]?topic=t,u.v&pattern=x.*", ""},
		{"kafka+ssl://u:p@a?topic=t&sasl=scram-sha-512", ""},
		{"kafka://u@a?password-file=f&topic=t&sasl=plain", ""},
		{"kafka://a?topic=t&ca=x&cert=y&key=z", ""},
		{"kafka://a?topic=t&fence=none&every=50ms&window=7&start=last&reset=stop&read=all&fetch=20000&dead=d&name=n&takeover=old", ""},
		{"http://a?topic=t", "not an address of Kafka: write kafka://HOST:PORT?topic=NAME"},
		{"kafka:a?topic=t", "not an address of Kafka"},
		{"kafka://?topic=t", "server 1 of the URL is not a HOST:PORT"},
		{"kafka://a", "a source needs topics: topic=NAME"},
		{"kafka://a/orders", "leave it out, and write topic=NAME"},
		{"kafka://a?topic=", `"" cannot be the name of a topic`},
		{"kafka://a?topic=a,a", "a is there twice"},
		{"kafka://a?topic=a b", `"a b" cannot be the name of a topic: names have letters`},
		{"kafka://a?topic=..", "cannot be the name"},
		{"kafka://a?pattern=(", "want a regular expression that matches whole names of topics"},
		{"kafka://a?topic=t&topics=t", "unknown parameter topics; known are ca, cert, dead, every, fence, fetch, key, name, password-file, pattern, read, reset, sasl, start, takeover, topic, window"},
		{"kafka://a?topic=t&fence=some", `the URL's parameter fence: want transaction or none, not "some"`},
		{"kafka://a?topic=t&every=1", "want a time from 10ms to 1m0s, such as 500ms"},
		{"kafka://a?topic=t&window=0", "want a number from 1 to 1000000"},
		{"kafka://a?topic=t&reset=earliest", "want first or last or stop"},
		{"kafka://a?topic=t&dead=t", "topic t is in topic= and in dead=: its dead letters would be consumed again"},
		{"kafka://u:p@a?topic=t", "a user needs a mechanism to sign in with: add sasl=scram-sha-512, sasl=scram-sha-256 or sasl=plain"},
		{"kafka://a?topic=t&sasl=plain", "sasl=plain needs a user: write kafka://USER:PASSWORD@HOST"},
		{"kafka://u@a?topic=t&sasl=plain", "a user without a password"},
		{"kafka://a?topic=t&cert=x", "cert and key: give both or none"},
		{"kafka://a?topic=t&name=a.b", `name "a.b": use A-Z`},
	} {
		err := rotakafka.Check(c.url)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", c.url, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "rotakafka: ")):
			t.Errorf("%s: %v, want %s", c.url, err, c.says)
		}
	}
}

func TestWrongSettingsAreRefusedByNew(t *testing.T) {
	_, err := rota.New(rota.Config{Group: "g", Store: newLedger(t).store.Open(), Source: rotakafka.Source("kafka://a"), Handle: newLedger(t).handle})
	if err == nil || !strings.Contains(err.Error(), "a source needs topics") {
		t.Errorf("%v, want the mistake of the URL", err)
	}
}

const concealed = "hunter2SECRET"

// FuzzURL: no text of any source contains a password.
func FuzzURL(f *testing.F) {
	for _, rest := range []string{"a?topic=t&sasl=plain", "a,b:1?topic=t", "a/b?topic=%", "@:,@/?=&;"} {
		f.Add(rest)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		for _, url := range []string{"kafka://u:" + concealed + "@" + rest, "kafka+ssl://:" + concealed + "@" + rest, concealed + "@" + rest} {
			s := rotakafka.Source(url)
			if text := fmt.Sprintf("%v %+v %#v %s %x %v", s, s, s, s, s, rotakafka.Check(url)); strings.Contains(text, concealed) {
				t.Errorf("%q tells its secret: %s", url, text)
			}
		}
	})
}

// FuzzNote: what is decoded is encoded the same, and nothing else is taken for a note.
func FuzzNote(f *testing.F) {
	for _, text := range []string{rotakafka.NoteOf([16]byte{1}, 5, false), rotakafka.NoteOf([16]byte{1}, 5, true), "", "rota1", "rota1 topic= token=", "rota1 topic=00 token=1", strings.Repeat("x", 5000)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if again, ok := rotakafka.ReadNote(text); ok && again != text {
			t.Errorf("%q is decoded as %q", text, again)
		}
	})
}

// FuzzPartition: a name is that of one partition of one topic.
func FuzzPartition(f *testing.F) {
	for _, name := range []string{"orders-0", "a-b-12", "-1", "a-", "a--1", "a-01", "a-99999999999", "", "a"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if topic, number, err := rotakafka.ReadPartition(name); err == nil && rotakafka.PartitionName(topic, number) != name {
			t.Errorf("%q is %q, %d", name, topic, number)
		}
	})
}
