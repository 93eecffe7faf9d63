package test

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDockerfileMakesAnImage carries out the steps of deploy/Dockerfile in folders: there
// is no container engine here. With ROTA_IMAGE=1, which make test-image sets, the binary is
// built, which takes minutes, and run with nothing else around it. Otherwise an empty file
// stands for it.
func TestDockerfileMakesAnImage(t *testing.T) {
	t.Parallel()
	i := image{t: t, stages: map[string]string{}, builds: os.Getenv("ROTA_IMAGE") == "1"}
	text, err := os.ReadFile("../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			i.step(words[0], words[1:])
		}
	}
	if want := []string{"data", "etc/ssl/certs/ca-certificates.crt", "usr/local/bin/rota"}; !slices.Equal(i.files(), want) {
		t.Fatalf("the image has %v, want %v", i.files(), want)
	}
	if i.user != "65534:65534" || i.entry != "/usr/local/bin/rota" {
		t.Errorf("it runs %s as %s", i.entry, i.user)
	}
	if i.builds {
		i.runs()
	}
}

// runs sees that the binary needs nothing but itself.
func (i *image) runs() {
	t := i.t
	bin, err := elf.Open(filepath.Join(i.root, i.entry))
	if err != nil {
		t.Fatal(err)
	}
	defer bin.Close()
	if libs, err := bin.ImportedLibraries(); err != nil || len(libs) > 0 || slices.ContainsFunc(bin.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Errorf("the binary is not static: %v, %v", libs, err)
	}
	if os.Geteuid() != 0 {
		t.Log("NOT ALLOWED: to change the root; the binary is static")
		return
	}
	if out, err := i.command("version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "rota ") {
		t.Errorf("rota version: %v, %s", err, out)
	}
	i.serves()
}

// An image is what the steps of a Dockerfile have made so far.
type image struct {
	t           *testing.T
	root        string            // of the stage at hand
	stages      map[string]string // name to root
	dir, user   string
	env         []string
	entry       string
	builds      bool // the binary is built
	sourceStage bool // it stands for the image of the Go toolchain, which is this machine
}

func (i *image) step(what string, args []string) {
	t := i.t
	t.Helper()
	switch what {
	case "FROM":
		i.root, i.dir, i.env = t.TempDir(), "/", nil
		if i.sourceStage = args[0] == "golang:1.26"; !i.sourceStage && args[0] != "scratch" {
			t.Fatalf("FROM %s: nobody knows what is in it", args[0])
		}
		if len(args) == 3 {
			i.stages[args[2]] = i.root
		}
	case "WORKDIR":
		i.dir = args[0]
	case "ENV":
		i.env = append(i.env, args...)
	case "USER":
		i.user = args[0]
	case "ENTRYPOINT":
		i.entry = strings.Trim(args[0], `[]"`)
	case "RUN":
		if at := slices.Index(args, "-o"); args[0] == "go" && !i.builds {
			if at < 0 || !slices.Contains(i.env, "CGO_ENABLED=0") {
				t.Fatalf("RUN %v builds no static binary", args)
			}
			if _, err := os.Stat(filepath.Join(i.root, i.dir, args[len(args)-1], "main.go")); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(i.root, i.dir, args[at+1]), "")
			return
		}
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", strings.Join(args, " "))
		cmd.Dir, cmd.Env = filepath.Join(i.root, i.dir), append(append(os.Environ(), "GOFLAGS=", "GOWORK="), i.env...)
		if out, err := cmd.CombinedOutput(); err != nil || !i.sourceStage {
			t.Fatalf("RUN %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	case "COPY":
		i.copy(args)
	default:
		t.Fatalf("%s: no such step here", what)
	}
}

func (i *image) copy(args []string) {
	t := i.t
	t.Helper()
	if slices.Equal(args, []string{".", "."}) {
		tree := copyTree(t)
		if err := os.Rename(tree.dir, filepath.Join(i.root, i.dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(i.root, i.dir, ".git")); err != nil { // .dockerignore names it
			t.Fatal(err)
		}
		return
	}
	from, owner := "", ""
	for ; strings.HasPrefix(args[0], "--"); args = args[1:] {
		flag, value, _ := strings.Cut(args[0], "=")
		switch flag {
		case "--from":
			from = i.stages[value]
		case "--chown":
			owner = value
		}
	}
	source, target := filepath.Join(from, args[0]), filepath.Join(i.root, args[1])
	if from == "" {
		t.Fatalf("COPY %v: from where?", args)
	}
	if !strings.HasPrefix(args[0], "/src/") { // of the image of the Go toolchain
		write(t, target, "")
		return
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(source, target); err != nil {
		t.Fatal(err)
	}
	if owner == "65534:65534" && os.Geteuid() == 0 {
		if err := os.Chown(target, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
}

// files are the files and the empty folders.
func (i *image) files() (names []string) {
	filepath.WalkDir(i.root, func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel(i.root, path)
		inside, _ := os.ReadDir(path)
		if err == nil && (!d.IsDir() || len(inside) == 0) {
			names = append(names, name)
		}
		return err
	})
	return names
}

// command runs the image's program as its user, with its files alone.
func (i *image) command(args ...string) *exec.Cmd {
	for dir := i.root; dir != filepath.Dir(os.TempDir()) && len(dir) > 1; dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755) // the user has to get there; folders of tests belong to root alone
		if dir == filepath.Dir(filepath.Dir(i.root)) {
			break
		}
	}
	cmd := exec.CommandContext(i.t.Context(), i.entry, args...)
	cmd.Path = i.entry
	cmd.Dir, cmd.Env = i.dir, []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: i.root, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}

// serves runs a server in the folder that a volume is mounted at, and looks at it.
func (i *image) serves() {
	t := i.t
	cmd := i.command("serve", "--dir", "/data/rota")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out []byte
	err := os.ErrNotExist
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		out, err = i.command("groups", "--dir", "/data/rota").CombinedOutput()
	}
	cmd.Process.Signal(syscall.SIGTERM)
	ended := cmd.Wait()
	if err != nil || ended != nil {
		t.Errorf("rota groups: %v, %s\nrota serve: %v, %s", err, out, ended, &said)
	}
}
