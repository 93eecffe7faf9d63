package rotakafka_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/rota-dev/rota"
)

// pageRights are the rights of the page: one for each operation.
func pageRights(t testing.TB) (all []kfake.ACL) {
	page, err := os.ReadFile("../../docs/sources/kafka.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		command, ok := strings.CutPrefix(line, "kafka-acls.sh … --add --allow-principal User:rota ")
		if !ok {
			continue
		}
		words := strings.Fields(command)
		right := kfake.ACL{Pattern: kmsg.ACLResourcePatternTypeLiteral, Allow: true}
		var operations []kmsg.ACLOperation
		for i := 0; i+1 < len(words); i += 2 {
			switch value := words[i+1]; words[i] {
			case "--operation":
				operations = append(operations, map[string]kmsg.ACLOperation{"Read": kmsg.ACLOperationRead, "Write": kmsg.ACLOperationWrite, "Create": kmsg.ACLOperationCreate}[value])
			case "--topic":
				right.Resource, right.Name = kmsg.ACLResourceTypeTopic, value
			case "--group":
				right.Resource, right.Name = kmsg.ACLResourceTypeGroup, value
			case "--transactional-id":
				right.Resource, right.Name = kmsg.ACLResourceTypeTransactionalId, value
			case "--resource-pattern-type":
				right.Pattern = kmsg.ACLResourcePatternTypePrefixed
			default:
				t.Fatalf("the page has a right with %s", words[i])
			}
		}
		for _, o := range operations {
			right.Operation = o
			all = append(all, right)
		}
	}
	if len(all) != 6 {
		t.Fatalf("the page has %d rights", len(all))
	}
	return all
}

// TestRights tries the rights of the page, and then without each of them.
func TestRights(t *testing.T) {
	t.Parallel()
	rights := pageRights(t)
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		withRights(t, rights, "")
	})
	for i, r := range rights {
		t.Run(fmt.Sprintf("without %v of %v %s", r.Operation, r.Resource, r.Name), func(t *testing.T) {
			t.Parallel()
			withRights(t, slices.Delete(slices.Clone(rights), i, i+1), "no right to")
		})
	}
}

// withRights runs a member of group billing for two messages, of which the first is bad, and
// then reads its dead letter.
func withRights(t *testing.T, rights []kfake.ACL, says string) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "a"), kfake.User("PLAIN", "rota", "r", rights...), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	addr := c.ListenAddrs()[0]
	admin := newClient(t, addr, kgo.SASL(plain.Auth{User: "admin", Pass: "a"}.AsMechanism()))
	b := &broker{t: t, addr: addr, url: "kafka://rota:r@" + addr, topic: "orders", names: []string{"orders-0"}, admin: admin, query: "&sasl=plain&every=50ms"}
	b.publish("orders-0", 1, 2)
	l := newLedger(t)
	l.group = "billing"
	l.fail = func(msg rota.Message) error {
		if string(msg.Value) == "1" {
			return fmt.Errorf("%w: poison", rota.ErrBad)
		}
		return nil
	}
	src := b.open()
	l.member(src)
	done := func() bool { return len(l.got["orders-0"]) > 0 }
	l.wait("message 2 is handled, or something is told", func() bool {
		return done() || says != "" && slices.ContainsFunc(l.reported, func(text string) bool { return strings.Contains(text, says) })
	})
	l.mu.Lock()
	ok := done()
	l.mu.Unlock()
	if !ok {
		return
	}
	var letters []string
	for letter, err := range src.(rota.DeadLetters).Letters(t.Context(), "") {
		if err != nil {
			if says == "" || !strings.Contains(err.Error(), says) {
				t.Errorf("the letters cannot be read: %v", err)
			}
			return
		}
		letters = append(letters, string(letter.Message.Value))
	}
	if says != "" {
		t.Errorf("nothing lacks that right")
	}
	if !slices.Equal(letters, []string{"1"}) {
		t.Errorf("the dead letters are %q", letters)
	}
	waitFor(t, "the offset is committed", func() bool { return b.committed(l.group, 0) == 2 })
}
