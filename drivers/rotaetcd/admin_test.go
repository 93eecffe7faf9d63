package rotaetcd_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// hidden is the password of every user.
const hidden = "hunter2SECRET"

// admin runs the commands of a script of etcdctl, as far as docs/stores/etcd.md uses it.
type admin struct {
	t    testing.TB
	auth pb.AuthClient
}

func newAdmin(t testing.TB, addr string, secure credentials.TransportCredentials) *admin {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(secure))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &admin{t, pb.NewAuthClient(conn)}
}

func (a *admin) run(script string) {
	a.t.Helper()
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(a.t.Context(), 30*time.Second)
		err := a.command(ctx, words)
		cancel()
		if err != nil {
			a.t.Fatalf("%s: %v", strings.TrimSpace(line), err)
		}
	}
}

func (a *admin) command(ctx context.Context, words []string) (err error) {
	if words[0] != "etcdctl" || len(words) < 3 {
		return fmt.Errorf("not a command of etcdctl")
	}
	args := words[3:]
	switch strings.Join(words[1:3], " ") {
	case "user add":
		_, err = a.auth.UserAdd(ctx, &pb.AuthUserAddRequest{Name: args[0], Password: hidden})
	case "user grant-role":
		_, err = a.auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: args[0], Role: args[1]})
	case "role add":
		_, err = a.auth.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: args[0]})
	case "role grant-permission":
		p := &authpb.Permission{PermType: authpb.Permission_Type(authpb.Permission_Type_value[strings.ToUpper(args[1])])}
		p.Key = []byte(args[len(args)-1])
		if args[2] == "--prefix" {
			p.RangeEnd = []byte(args[3])
			p.RangeEnd[len(p.RangeEnd)-1]++
		}
		_, err = a.auth.RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{Name: args[0], Perm: p})
	case "auth enable":
		_, err = a.auth.AuthEnable(ctx, &pb.AuthEnableRequest{})
	default:
		err = fmt.Errorf("unknown")
	}
	return err
}

// commandsOf returns the commands of etcdctl in docs/stores/etcd.md.
func commandsOf(t testing.TB) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/stores/etcd.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "```sh\netcdctl")
	script, _, ok2 := strings.Cut("etcdctl"+rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/stores/etcd.md has no commands of etcdctl")
	}
	return script
}
