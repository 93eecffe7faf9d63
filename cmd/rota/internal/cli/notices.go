package cli

import (
	"cmp"
	"encoding/json"
	"io"
	"regexp"
	"runtime/debug"
	"strings"
)

// licences reads from the notices, by module, its version and its licence.
func licences(text string) map[string][2]string {
	out := map[string][2]string{}
	for _, m := range noticeLine.FindAllStringSubmatch(text, -1) {
		out[m[1]] = [2]string{m[2], m[3]}
	}
	return out
}

var noticeLine = regexp.MustCompile(`(?m)^== (\S+)(?: (\S+))? \((.*)\)$`)

// The shape of a CycloneDX 1.5 document, as far as it is used here.
type (
	bom struct {
		Format     string        `json:"bomFormat"`
		Spec       string        `json:"specVersion"`
		Version    int           `json:"version"`
		Metadata   bomMetadata   `json:"metadata"`
		Components []bomModule   `json:"components"`
		Depends    []bomDepends  `json:"dependencies"`
		Properties []bomProperty `json:"properties,omitempty"`
	}
	bomMetadata struct {
		Component bomModule `json:"component"`
	}
	bomModule struct {
		Type       string        `json:"type"`
		Ref        string        `json:"bom-ref"`
		Name       string        `json:"name"`
		Version    string        `json:"version"`
		URL        string        `json:"purl,omitempty"`
		Licenses   []bomLicence  `json:"licenses,omitempty"`
		Properties []bomProperty `json:"properties,omitempty"`
	}
	bomLicence struct {
		Expression string `json:"expression"`
	}
	bomProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	bomDepends struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn"`
	}
)

// ourModule begins the names of what is made here.
const ourModule = "github.com/rota-dev/rota"

// billOf lists the modules that this very binary was built from. It has neither a
// date nor a serial number: one binary always tells the same.
func billOf(info *debug.BuildInfo, notices string) bom {
	by := licences(notices)
	part := func(kind, path, version, sum string) bomModule {
		m := bomModule{Type: kind, Name: path, Version: cmp.Or(version, "(devel)")}
		m.URL = "pkg:golang/" + path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
		licence := by[path][1]
		if path == ourModule || strings.HasPrefix(path, ourModule+"/") {
			licence = "Apache-2.0"
			if strings.HasPrefix(m.Version, "(") {
				m.URL = "" // of a working tree: nobody can fetch it
			}
		}
		m.Ref = cmp.Or(m.URL, path)
		if licence != "" {
			m.Licenses = []bomLicence{{licence}}
		}
		if sum != "" { // of a whole module, by Go's own rule: no digest of one file
			m.Properties = []bomProperty{{"go:sum", sum}}
		}
		return m
	}
	out := bom{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: bomMetadata{part("application", ourModule+"/cmd/rota", info.Main.Version, info.Main.Sum)}}
	out.Components = []bomModule{part("library", "std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, d := range info.Deps {
		if d.Replace != nil && d.Replace.Version != "" {
			d = d.Replace
		} else if d.Replace != nil { // by a folder
			d = &debug.Module{Path: d.Path}
		}
		out.Components = append(out.Components, part("library", d.Path, d.Version, d.Sum))
	}
	on := bomDepends{Ref: out.Metadata.Component.Ref}
	for _, c := range out.Components {
		on.On = append(on.On, c.Ref)
	}
	out.Depends = []bomDepends{on}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision", "vcs.modified", "GOOS", "GOARCH", "CGO_ENABLED":
			out.Properties = append(out.Properties, bomProperty{"go:build:" + s.Key, s.Value})
		}
	}
	return out
}

func printBill(w io.Writer, info *debug.BuildInfo, notices string) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(billOf(info, notices))
}
