package lab

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-dev/rota/internal/pack"
)

// docs/packing.md and docs/cli.md name the default price that the code has, its
// figures, and every setting of the packer.
func TestPackingPageFollowsThePacker(t *testing.T) {
	read := func(page string) string {
		b, err := os.ReadFile("../../../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	page := read("packing.md")
	wants := []string{
		fmt.Sprintf("It is %g unless told otherwise", pack.DefaultPrice),
		fmt.Sprintf("\n| pack %g | ", pack.DefaultPrice),
		fmt.Sprintf("\n| %g, the default | MWF | ", pack.DefaultPrice),
		fmt.Sprintf("\n| %g, the default | MBF | ", pack.DefaultPrice),
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[pack.Options]()) {
		if f.Name != "Loads" {
			wants = append(wants, "`"+f.Name+"`")
		}
	}
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("docs/packing.md has no %q: rota bench plan -o markdown makes its tables", want)
		}
	}
	if want := fmt.Sprintf("%g unless given", pack.DefaultPrice); !strings.Contains(read("cli.md"), want) {
		t.Errorf("docs/cli.md has no %q", want)
	}
}
