package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/screen"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// FuzzPicture shows the members and partitions of a group whose records say anything
// that decodes: neither the story nor the picture may fail, or move a cursor.
func FuzzPicture(f *testing.F) {
	trial.FuzzGroups(f, func(t *testing.T, st *rota.Status) {
		now := time.Now()
		var b strings.Builder
		v := &live{w: &b, f: &upFlags{dir: "d"}, sup: &supervisor{}, began: now, names: map[string]string{}, work: map[string]*pace{}, shown: map[string]rota.MemberState{}}
		v.see(st)
		v.flush()
		v.see(st)
		v.flush()
		trial.Tame(t, "the story of rota up", b.String())
		for _, size := range trial.Sizes {
			trial.Tame(t, "the picture of rota up", strings.Join(screen.Texts(v.picture(now).lines(size[0], size[1])), "\n"))
		}
	})
}
