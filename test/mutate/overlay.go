package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// compile builds the program that plays mutants: this one, with the core in
// which they all are. It returns its path.
func compile(root, dir string, set *Set, probing bool) (string, error) {
	name, files := "play", set.Files
	if probing {
		name, files = "probe", set.Probing
	}
	src := filepath.Join(dir, name+"-src")
	if err := os.RemoveAll(src); err != nil {
		return "", err
	}
	if err := os.MkdirAll(src, 0o755); err != nil {
		return "", err
	}
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
	if err := put(filepath.Join(root, "test", "mutate", "switch.go"), chosen); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, name+".json")
	if err := os.WriteFile(overlay, text, 0o644); err != nil {
		return "", err
	}
	bin := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-overlay", overlay, "-o", bin, "./test/mutate")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the core with all mutants does not build: %w\n%s", err, out)
	}
	return bin, nil
}
