package test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The modules that are released, in the order in which they require each other.
var released = []struct{ path, tag string }{
	{"github.com/rota-dev/rota", ""},
	{"github.com/rota-dev/rota/drivers/rotanats", "drivers/rotanats/"},
	{"github.com/rota-dev/rota/drivers/rotazk", "drivers/rotazk/"},
	{"github.com/rota-dev/rota/drivers/rotaetcd", "drivers/rotaetcd/"},
	{"github.com/rota-dev/rota/drivers/rotaredis", "drivers/rotaredis/"},
	{"github.com/rota-dev/rota/drivers/rotarabbit", "drivers/rotarabbit/"},
	{"github.com/rota-dev/rota/drivers/rotakafka", "drivers/rotakafka/"},
	{"github.com/rota-dev/rota/drivers/rotaactive", "drivers/rotaactive/"},
	{"github.com/rota-dev/rota/drivers/rotaaws", "drivers/rotaaws/"},
	{"github.com/rota-dev/rota/cmd/rota", "cmd/rota/"},
}

// TestReleaseCanBeUsedFromOutside prepares a release of this working tree and uses it
// as somebody would who has nothing else: by a module proxy, without a workspace. The
// go command itself makes the proxy's files of the tags, as the public proxy does.
func TestReleaseCanBeUsedFromOutside(t *testing.T) {
	t.Parallel()
	const version = "v0.98.7"
	tree := copyTree(t)
	tree.refuses(t, "", `VERSION is ""`)
	tree.refuses(t, "0.98.7", `VERSION is "0.98.7"`)
	tree.refuses(t, "v2.0.0", `VERSION is "v2.0.0"`)
	stray := filepath.Join(tree.dir, "stray.go")
	write(t, stray, "package rota\n")
	tree.refuses(t, version, "the working tree has changes")
	if err := os.Remove(stray); err != nil {
		t.Fatal(err)
	}
	tree.run(t, "git", "tag", "cmd/rota/"+version)
	tree.refuses(t, version, "there is a tag cmd/rota/"+version)
	tree.run(t, "git", "tag", "-d", "cmd/rota/"+version)

	before := tree.run(t, "git", "rev-parse", "HEAD")
	tree.run(t, "make", "release", "VERSION="+version)
	if parent := tree.run(t, "git", "rev-parse", "HEAD~1"); parent != before {
		t.Errorf("the release is not one commit on top of %s", before)
	}
	if left := tree.run(t, "git", "status", "--porcelain") + tree.run(t, "git", "worktree", "list"); strings.Count(left, "\n") != 1 {
		t.Errorf("the release leaves behind: %s", left)
	}
	for _, m := range released {
		if got := tree.run(t, "git", "rev-parse", m.tag+version+"^{commit}"); got != tree.run(t, "git", "rev-parse", "HEAD") {
			t.Errorf("tag %s%s is at %s", m.tag, version, got)
		}
	}
	if out := tree.run(t, "go", "list", "-f", "{{.Dir}}", "github.com/rota-dev/rota/drivers/rotanats"); strings.TrimSpace(out) != filepath.Join(tree.dir, "drivers", "rotanats") {
		t.Errorf("in the workspace, the driver comes from %s", out)
	}
	t.Run("tidy changes nothing", func(t *testing.T) {
		out, err := tree.command(t, "make", "tidy").CombinedOutput()
		if err != nil && strings.Contains(string(out), "disabled by GOPROXY=off") {
			t.Skipf("NOT IN THE MODULE CACHE: what tidy needs for other systems; run make tidy once with a network:\n%s", out)
		}
		if changed := tree.run(t, "git", "status", "--porcelain"); err != nil || changed != "" {
			t.Errorf("%v, %s%s", err, out, changed)
		}
	})

	user := outsider(t, tree, version)
	t.Run("whoever clones the tag needs no workspace", func(t *testing.T) {
		for _, m := range released {
			user.in(filepath.Join(tree.dir, m.tag)).run(t, "go", "list", "-deps", "./...")
		}
	})
	t.Run("a program runs a member with a server of its own", func(t *testing.T) {
		p := user.program(t, "member", version)
		if out := p.run(t, "./program", filepath.Join(t.TempDir(), "data")); out != "orders.1: seven apples\n" {
			t.Errorf("it printed %q", out)
		}
	})
	t.Run("a program that only connects has no server in it", func(t *testing.T) {
		p := user.program(t, "client", version)
		if out := p.run(t, "go", "version", "-m", "program"); strings.Contains(out, "nats-server") || !strings.Contains(out, "drivers/rotanats\t"+version) {
			t.Errorf("it was built from %s", out)
		}
		if out := p.run(t, "go", "mod", "edit", "-print"); strings.Contains(out, "nats-server") {
			t.Errorf("its go.mod lists the server: %s", out)
		}
	})
	t.Run("go install", func(t *testing.T) {
		user.run(t, "go", "install", "github.com/rota-dev/rota/cmd/rota@"+version)
		if out := user.run(t, filepath.Join(user.dir, "rota"), "version"); !strings.HasPrefix(out, "rota "+version+" ") {
			t.Errorf("rota version says %q", out)
		}
	})
}

// A place is a folder, and the environment of commands that run there.
type place struct {
	dir string
	env []string
}

func (p place) in(dir string) place { return place{dir, p.env} }

func (p place) command(t *testing.T, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), p.env...)
	return cmd
}

// run returns what a command prints.
func (p place) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := p.command(t, name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs.Bytes())
	}
	return string(out)
}

// refuses sees that a release is refused, and changes nothing.
func (p place) refuses(t *testing.T, version, says string) {
	t.Helper()
	state := func() string { return p.run(t, "git", "rev-parse", "HEAD") + p.run(t, "git", "tag") }
	before := state()
	out, err := p.command(t, "make", "release", "VERSION="+version).CombinedOutput()
	if err == nil || !strings.Contains(string(out), says) {
		t.Errorf("VERSION=%s: %v, %s; want it refused with %q", version, err, out, says)
	}
	if state() != before {
		t.Errorf("VERSION=%s was refused, and has changed something", version)
	}
}

// copyTree makes a repository of the working tree as it is, committed or not.
func copyTree(t *testing.T) place {
	t.Helper()
	from := place{dir: ".."}
	if out, err := from.command(t, "git", "rev-parse", "--git-dir").CombinedOutput(); err != nil {
		t.Skipf("NOT A REPOSITORY: %v: %s", err, out)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(from.run(t, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		info, err := os.Stat(filepath.Join(from.dir, name))
		if name == "" || os.IsNotExist(err) { // removed, and not yet committed
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(from.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
		if err := os.Chmod(filepath.Join(dir, name), info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	who := []string{"GIT_AUTHOR_NAME=rota", "GIT_AUTHOR_EMAIL=rota@example.com", "GIT_COMMITTER_NAME=rota", "GIT_COMMITTER_EMAIL=rota@example.com",
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull, "GOFLAGS=", "GOWORK=", "GOPROXY=off"}
	tree := place{dir, who}
	tree.run(t, "git", "init", "--quiet")
	tree.run(t, "git", "add", "--all")
	tree.run(t, "git", "commit", "--quiet", "--message", "the working tree")
	return tree
}

// outsider has a module proxy with the release, all other modules from this machine's
// cache, and no network.
func outsider(t *testing.T, tree place, version string) place {
	t.Helper()
	ours, theirs := t.TempDir(), strings.TrimSpace(tree.run(t, "go", "env", "GOMODCACHE"))
	proxy := place{t.TempDir(), []string{
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + tree.dir + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + released[0].path,
		"GOWORK=off", "GOPROXY=direct", "GONOPROXY=", "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOMODCACHE=" + ours,
	}}
	for _, m := range released {
		proxy.run(t, "go", "mod", "download", m.path+"@"+version)
	}
	dir := t.TempDir()
	return place{dir, []string{
		"GOPROXY=file://" + ours + "/cache/download,file://" + theirs + "/cache/download",
		// Without the paths of the machine, compiled packages are found in the build cache
		// although the module cache is a new one.
		"GOFLAGS=-modcacherw -trimpath",
		"GOWORK=off", "GONOPROXY=", "GOSUMDB=off", "GOMODCACHE=" + t.TempDir(), "GOBIN=" + dir,
	}}
}

// program gets the release and builds a program of testdata/release with it.
func (p place) program(t *testing.T, name, version string) place {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "release", name, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	p = p.in(t.TempDir())
	write(t, filepath.Join(p.dir, "main.go"), string(text))
	p.run(t, "go", "mod", "init", "example.com/"+name)
	p.run(t, "go", "get", released[0].path+"@"+version, released[1].path+"@"+version)
	p.run(t, "go", "build", "-mod=mod", "-o", "program", ".") // not tidy, which wants the modules of all systems
	return p
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
