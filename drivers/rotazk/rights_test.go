package rotazk_test

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/rota-dev/rota"
)

// page is what docs/stores/zookeeper.md says about rights: the ACLs of nodes, and the acl
// of the URLs of roles.
type page struct{ nodes, roles map[string]string }

func readPage(t *testing.T) page {
	t.Helper()
	text, err := os.ReadFile("../../docs/stores/zookeeper.md")
	if err != nil {
		t.Fatal(err)
	}
	p := page{map[string]string{}, map[string]string{}}
	for kind, into := range map[string]map[string]string{"acl": p.nodes, "urls": p.roles} {
		block := regexp.MustCompile("(?s)```" + kind + "\n(.*?)```").FindSubmatch(text)
		if block == nil {
			t.Fatalf("the page has no block %s", kind)
		}
		for line := range strings.Lines(string(block[1])) {
			if f := strings.Fields(line); len(f) == 2 {
				into[f[0]] = f[1]
			}
		}
	}
	if len(p.nodes) != 2 || len(p.roles) != 3 {
		t.Fatalf("the page has the nodes %v and the roles %v", p.nodes, p.roles)
	}
	return p
}

var hashRE = regexp.MustCompile(`digest:(\w+):HASH`)

// withHashes puts the hashes of the passwords into an ACL. The password of each user is
// its name and hidden.
func withHashes(acl string, escape func(string) string) string {
	return hashRE.ReplaceAllStringFunc(acl, func(m string) string {
		user := hashRE.FindStringSubmatch(m)[1]
		sum := sha1.Sum([]byte(user + ":" + user + hidden))
		return "digest:" + user + ":" + escape(base64.StdEncoding.EncodeToString(sum[:]))
	})
}

// rights makes the nodes of the page, and lets each role do what it should, and no more.
func rights(t *testing.T, addr string) {
	p := readPage(t)
	z := admin(t, addr, "admin:admin"+hidden)
	for _, node := range []string{"/rights", "/rights/orders"} {
		acl := withHashes(p.nodes[strings.Replace(node, "/rights", "/rota", 1)], func(s string) string { return s })
		if _, err := z.Create(node, nil, 0, parse(t, acl)); err != nil {
			t.Fatal(err)
		}
	}
	role := func(name string) rota.Store {
		u := strings.NewReplacer("PASSWORD", name+hidden, "HOST", addr, "/rota", "/rights").Replace(withHashes(p.roles[name], url.QueryEscape))
		return open(t, u)
	}
	member, operator, observer, stranger := role("member"), role("operator"), role("observer"), open(t, "zk://"+addr+"/rights")
	put := func(s rota.Store, key string, prev rota.Rev) (rota.Rev, error) {
		return s.Put(t.Context(), key, []byte("v"), prev)
	}
	read := func(s rota.Store, key string) error { _, err := s.Get(t.Context(), key); return err }
	revs := map[string]rota.Rev{}
	for key, s := range map[string]rota.Store{"orders/plan": member, "orders/member/x": member, "orders/orders": operator} {
		rev, err := put(s, key, 0)
		if err == nil {
			rev, err = put(s, key, rev)
		}
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		revs[key] = rev
	}
	for name, s := range map[string]rota.Store{"member": member, "operator": operator, "observer": observer} {
		if shown := list(t, s, "orders/"); len(shown) != len(revs) {
			t.Errorf("the %s sees %v", name, shown)
		}
		if err := read(s, "orders/none"); !errors.Is(err, rota.ErrNotFound) {
			t.Errorf("the %s reads what is not there: %v", name, err)
		}
	}
	if err := member.Delete(t.Context(), "orders/member/x", revs["orders/member/x"]); err != nil {
		t.Errorf("a member deletes a record: %v", err)
	}
	change := func(s rota.Store, key string) error { _, err := put(s, key, revs[key]); return err }
	create := func(s rota.Store, key string) error { _, err := put(s, key, 0); return err }
	for what, err := range map[string]error{
		"an operator may not set /rights/orders/plan":    change(operator, "orders/plan"),
		"an operator may not delete /rights/orders/plan": operator.Delete(t.Context(), "orders/plan", revs["orders/plan"]),
		"a member may not set /rights/orders/orders":     change(member, "orders/orders"),
		"an observer may not set /rights/orders/plan":    change(observer, "orders/plan"),
		"an observer may not create /rights/orders/new":  create(observer, "orders/new"),
		"a member may not create /rights/billing":        create(member, "billing/plan"),
		"a stranger may not get /rights/orders/plan":     read(stranger, "orders/plan"),
		"a stranger may not create /rights/orders/plan":  create(stranger, "orders/plan"),
		"a stranger may not create /rights/billing":      create(stranger, "billing/plan"),
	} {
		_, says, _ := strings.Cut(what, "may not")
		if !errors.Is(err, rota.ErrPermanent) || !strings.Contains(err.Error(), "may not"+says) {
			t.Errorf("%s: %v", what, err)
		}
		silent(t, what, err)
	}
}

// parse reads an ACL for the plain client.
func parse(t *testing.T, acl string) (list []zk.ACL) {
	t.Helper()
	bits := map[rune]int32{'r': zk.PermRead, 'w': zk.PermWrite, 'c': zk.PermCreate, 'd': zk.PermDelete, 'a': zk.PermAdmin}
	for entry := range strings.SplitSeq(acl, ",") {
		first, last := strings.IndexByte(entry, ':'), strings.LastIndexByte(entry, ':')
		a := zk.ACL{Scheme: entry[:first], ID: entry[first+1 : last]}
		for _, letter := range entry[last+1:] {
			a.Perms |= bits[letter]
		}
		list = append(list, a)
	}
	return list
}
