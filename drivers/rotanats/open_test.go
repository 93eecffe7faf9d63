package rotanats_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/drivers/rotanats"
)

// folderToken is what lets those in who may read the folder.
func folderToken(t testing.TB, dir string) string {
	t.Helper()
	var note struct{ Token string }
	text, err := os.ReadFile(filepath.Join(dir, "rota.address"))
	if err == nil {
		err = json.Unmarshal(text, &note)
	}
	if err != nil || note.Token == "" {
		t.Fatalf("the token of %s: %v", dir, err)
	}
	return note.Token
}

// TestOpennessDoesNotStick: a folder was served without a password once. Whoever
// embeds it later asks for the folder's token again.
func TestOpennessDoesNotStick(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s, err := rotanats.Serve(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := works(t, rotanats.Store(s.URL())); err != nil {
		t.Errorf("while it is served without a password: %v", err)
	}
	s.Close()
	e := rotanats.Embed(dir)
	defer e.Close()
	if _, err := e.Get(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if err := works(t, rotanats.Store(s.URL())); err == nil || !strings.Contains(err.Error(), "Authorization Violation") {
		t.Errorf("without the token: %v", err)
	}
	if err := works(t, rotanats.Store(s.URL(), rotanats.Token(folderToken(t, dir)))); err != nil {
		t.Errorf("with the token: %v", err)
	}
	if err := works(t, rotanats.Embed(dir)); err != nil {
		t.Errorf("by the folder: %v", err)
	}
}
