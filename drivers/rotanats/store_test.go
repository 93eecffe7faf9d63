package rotanats_test

import (
	"path/filepath"
	"testing"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/rotatest"
)

func TestStoreEmbedded(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	rotatest.Store(t, func(*testing.T) rota.Store { return rotanats.Embed(dir) })
}

func TestStoreOneServer(t *testing.T) {
	t.Parallel()
	s := rotatest.StartNATS(t)
	rotatest.Store(t, func(*testing.T) rota.Store { return rotanats.Store(s.URL()) }, rotatest.WithServer(s))
}
