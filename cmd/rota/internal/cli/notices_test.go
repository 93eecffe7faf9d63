package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// binary is where the program is, and its notices.
const binary = "../.."

func readNotices(t *testing.T) string {
	b, err := os.ReadFile(filepath.Join(binary, "THIRD-PARTY-NOTICES"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// linkedModules are those of others that the binary has on some system.
func linkedModules(t *testing.T) map[string]string {
	out := map[string]string{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if .Version}}{{.Path}} {{.Version}}{{end}}{{end}}", binary)
		list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		var wrong strings.Builder
		list.Stderr = &wrong
		text, err := list.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v: %s", system, err, &wrong)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 2 {
				out[f[0]] = f[1]
			}
		}
	}
	return out
}

// The notices are of what is linked, no more and no less, and each has its texts.
func TestNoticesAreOfWhatIsLinked(t *testing.T) {
	notices := readNotices(t)
	told, linked := licences(notices), linkedModules(t)
	if len(linked) < 5 {
		t.Fatalf("only %v is linked: the test asks wrongly", linked)
	}
	for path, version := range linked {
		if told[path][0] != version {
			t.Errorf("%s %s is linked, the notices tell of version %q: make notices", path, version, told[path][0])
		}
	}
	for path := range told {
		if _, there := linked[path]; !there && path != "std" {
			t.Errorf("%s is not linked any more: make notices", path)
		}
	}
	texts := noticeLine.Split(notices, -1)
	for i, m := range noticeLine.FindAllStringSubmatch(notices, -1) {
		text := strings.TrimSpace(texts[i+1]) // of the last of several modules with the same
		if last := text != ""; last && len(text) < 500 {
			t.Errorf("%s: %q is no licence", m[1], text)
		}
		if !regexp.MustCompile(`^(Apache-2\.0|MIT|BSD-[23]-Clause)( AND (MIT|BSD-[23]-Clause))*$`).MatchString(m[3]) {
			t.Errorf("%s: licence %q: does it fit ours?", m[1], m[3])
		}
	}
	if strings.TrimSpace(texts[len(texts)-1]) == "" {
		t.Error("the last module has no text")
	}
}

// A bill of materials is CycloneDX as other tools read it: each part with a type, a
// name, a version and a licence, under a reference of its own.
func TestBillOfMaterials(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: ourModule + "/cmd/rota", Version: "v1.2.3", Sum: "h1:main="},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "-compiler", Value: "gc"}},
		Deps:     []*debug.Module{{Path: ourModule, Version: "(devel)"}, {Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new", Version: "v1.1.0", Sum: "h1:new="}}}}
	for path, x := range licences(readNotices(t)) {
		if path != "std" {
			info.Deps = append(info.Deps, &debug.Module{Path: path, Version: x[0], Sum: "h1:" + path})
		}
	}
	var b strings.Builder
	if err := printBill(&b, info, readNotices(t)); err != nil {
		t.Fatal(err)
	}
	type part struct {
		Type       string                         `json:"type"`
		Ref        string                         `json:"bom-ref"`
		Name       string                         `json:"name"`
		Version    string                         `json:"version"`
		URL        string                         `json:"purl"`
		Licenses   []struct{ Expression string }  `json:"licenses"`
		Properties []struct{ Name, Value string } `json:"properties"`
	}
	var got struct {
		BomFormat    string                   `json:"bomFormat"`
		SpecVersion  string                   `json:"specVersion"`
		Version      int                      `json:"version"`
		Metadata     struct{ Component part } `json:"metadata"`
		Components   []part                   `json:"components"`
		Dependencies []struct {
			Ref       string   `json:"ref"`
			DependsOn []string `json:"dependsOn"`
		} `json:"dependencies"`
		Properties []struct{ Name, Value string } `json:"properties"`
	}
	d := json.NewDecoder(strings.NewReader(b.String()))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.BomFormat != "CycloneDX" || got.SpecVersion != "1.5" || got.Version != 1 || len(got.Components) != len(info.Deps)+1 {
		t.Errorf("%s %s, version %d, %d components", got.BomFormat, got.SpecVersion, got.Version, len(got.Components))
	}
	main := got.Metadata.Component
	if main.Type != "application" || main.URL != "pkg:golang/github.com/rota-dev/rota/cmd/rota@v1.2.3" || len(main.Properties) != 1 {
		t.Errorf("it is of %+v", main)
	}
	refs := map[string]bool{main.Ref: true}
	for _, p := range got.Components {
		if refs[p.Ref] || p.Ref == "" {
			t.Errorf("reference %q is there twice, or none", p.Ref)
		}
		refs[p.Ref] = true
		if p.Type != "library" || p.Name == "" || p.Version == "" || len(p.Licenses) != 1 && p.Name != "example.com/new" {
			t.Errorf("%+v", p)
		}
		if p.Name == "example.com/old" || p.Name == "example.com/new" && (p.Version != "v1.1.0" || p.Properties[0].Value != "h1:new=") {
			t.Errorf("replaced, yet %+v", p)
		}
		if p.Name == ourModule && p.URL != "" {
			t.Errorf("nobody can fetch %s", p.URL)
		}
	}
	if len(got.Dependencies) != 1 || got.Dependencies[0].Ref != main.Ref || len(got.Dependencies[0].DependsOn) != len(got.Components) {
		t.Errorf("dependencies %+v", got.Dependencies)
	}
	if len(got.Properties) != 1 || got.Properties[0].Value != "abc" {
		t.Errorf("properties %+v", got.Properties)
	}
}
