package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// chosen takes the place of switch.go in the program that plays mutants.
const chosen = `package main

import "github.com/rota-dev/rota/internal/core"

func choose(n int) bool {
	core.ChooseMutant(n)
	return true
}

func watch(all []int) { core.WatchMutants(all) }

func differing() []int { return core.Differing() }
`

// asked is a file more of the core's own tests: they are run with one mutant in.
const asked = `package core_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/rota-dev/rota/internal/core"
)

func TestMain(m *testing.M) {
	n, err := strconv.Atoi(os.Getenv("ROTA_MUTANT"))
	if err != nil {
		panic(err)
	}
	core.ChooseMutant(n)
	os.Exit(m.Run())
}
`

// compileTests builds the core's own tests, with all mutants. It returns the path
// of their program.
func compileTests(root, dir string, set *Set) (string, error) {
	return compileOver(root, dir, "tests", set.Files, map[string]string{filepath.Join(root, "internal", "core", "mxmain_test.go"): asked},
		"test", "-c", "./internal/core")
}

// compile builds the program that plays mutants: this one, with the core in
// which they all are. It returns its path.
func compile(root, dir string, set *Set, probing bool) (string, error) {
	name, files := "play", set.Files
	if probing {
		name, files = "probe", set.Probing
	}
	return compileOver(root, dir, name, files, map[string]string{filepath.Join(root, "test", "mutate", "switch.go"): chosen},
		"build", "./test/mutate")
}

// compileOver builds a package over the core with all mutants and some files more.
func compileOver(root, dir, name string, files map[string][]byte, more map[string]string, args ...string) (string, error) {
	// Outside of the repository: go vet and gofmt would look at the mutated core.
	src, err := os.MkdirTemp("", "rota-mutate-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(src)
	replace := map[string]string{}
	put := func(path, text string) error {
		to := filepath.Join(src, filepath.Base(path))
		replace[path] = to
		return os.WriteFile(to, []byte(text), 0o644)
	}
	for path, text := range files {
		if err := put(path, string(text)); err != nil {
			return "", err
		}
	}
	for path, text := range more {
		if err := put(path, text); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(src, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o644); err != nil {
		return "", err
	}
	bin := filepath.Join(dir, name)
	last := len(args) - 1
	cmd := exec.Command("go", slices.Concat(args[:last], []string{"-overlay", overlay, "-o", bin}, args[last:])...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the core with all mutants does not build: %w\n%s", err, out)
	}
	return bin, nil
}
