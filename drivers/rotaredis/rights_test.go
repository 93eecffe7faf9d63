package rotaredis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotaredis"
	"github.com/rota-dev/rota/rotatest"
)

// pageRights are the words of the ACL commands on the page, that of a server and that of a
// Cluster.
func pageRights(t testing.TB) (all [][]string) {
	page, err := os.ReadFile("../../docs/stores/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if rights, ok := strings.CutPrefix(line, "ACL SETUSER orders "); ok {
			all = append(all, strings.Fields(strings.ReplaceAll(rights, "PASSWORD", hidden)))
		}
	}
	if len(all) != 2 {
		t.Fatalf("the page has %d ACL commands", len(all))
	}
	return all
}

// TestRights tries the rights of the page, and then without each of them.
func TestRights(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"one server", "a Cluster"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rights := pageRights(t)[i]
			var u users
			if i == 0 {
				u = users{t, "redis://", []*rotatest.RealServer{rotatest.StartRedis(t)}}
			} else {
				u = users{t, "redis+cluster://", startCluster(t, rotatest.RedisSetup{}, 0).Nodes}
			}
			if err := u.use("orders", rights); err != nil {
				t.Fatalf("with the rights of the page: %v", err)
			}
			for _, right := range rights {
				if !strings.HasPrefix(right, "+") || right == "+asking" { // that is for a slot on its way
					continue
				}
				t.Run("without "+right, func(t *testing.T) {
					if right == "+eval" { // the server must not know the scripts
						for _, s := range u.servers {
							admin(t, s)("SCRIPT", "FLUSH")
						}
					} else {
						t.Parallel()
					}
					name := strings.NewReplacer("+", "without-", "|", "-").Replace(right)
					err := users{t, u.scheme, u.servers}.use(name, slices.DeleteFunc(slices.Clone(rights), func(w string) bool { return w == right }))
					silent(t, "the error", err)
					switch {
					case err == nil:
						t.Error("all works")
					case strings.Contains(err.Error(), "\n"):
						t.Errorf("more than a line: %v", err)
					case right == "+config|get":
						if !errors.Is(err, errClass) {
							t.Error(err)
						}
					case !errors.Is(err, rota.ErrPermanent) || !strings.Contains(err.Error(), "ACL denies"):
						t.Errorf("unclear: %v", err)
					}
				})
			}
		})
	}
}

// users are users of a server or a Cluster.
type users struct {
	testing.TB
	scheme  string
	servers []*rotatest.RealServer
}

var errClass = errors.New("another class than a server deserves")

// use makes a user and does as it what members do, until something is refused: each verb,
// two watches of which one ends, and silence until a feed has sent a ping.
func (u users) use(name string, rights []string) error {
	u.Helper()
	var admins []func(...any) any
	for _, s := range u.servers {
		do := admin(u, s)
		args := []any{"ACL", "SETUSER", name}
		for _, w := range rights {
			args = append(args, w)
		}
		do(args...)
		admins = append(admins, do)
	}
	s := rotaredis.Store(u.scheme + name + ":" + hidden + "@" + u.servers[0].Addr())
	defer s.Close()
	ctx, cancel := context.WithTimeout(u.Context(), patience)
	defer cancel()
	dir := "orders/" + name + "/"
	rev, err := s.Put(ctx, dir+"k", []byte("1"), 0)
	if err != nil {
		return err
	}
	if _, err := s.Get(ctx, dir+"k"); err != nil {
		return err
	}
	w := begin(u, s, dir+"k")
	if err := w.until(func() bool { return w.value() == "1" }); err != nil {
		return err
	}
	for _, err := range s.Watch(ctx, dir) {
		if err != nil {
			return err
		}
		break // unsubscribes
	}
	if err := w.until(func() bool { return pinged(admins, name) }); err != nil {
		return err
	}
	if rev, err = s.Put(ctx, dir+"k", []byte("2"), rev); err != nil {
		return err
	}
	if err := w.until(func() bool { return w.value() == "2" }); err != nil {
		return err
	}
	if err := s.Delete(ctx, dir+"k", rev); err != nil {
		return err
	}
	if s.(rota.Classifier).Class() != map[bool]rota.Class{true: rota.ClassB, false: rota.ClassC}[u.scheme == "redis://"] {
		return errClass
	}
	return nil
}

// pinged tells whether the last command of a connection of the user is a ping.
func pinged(admins []func(...any) any, user string) bool {
	for _, do := range admins {
		for line := range strings.Lines(fmt.Sprint(do("CLIENT", "LIST"))) {
			if strings.Contains(line, " user="+user+" ") && strings.Contains(line, " cmd=ping ") {
				return true
			}
		}
	}
	return false
}
