package rotanats_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
)

// TestOpennessDoesNotStick serves a folder with open=true once. A later server does not
// listen, or requires a secret again.
func TestOpennessDoesNotStick(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := serveTCP(t, dir, "nats://HOST?open=true")
	if err := works(t, rotanats.Store(s.URL())); err != nil {
		t.Errorf("while it is served openly: %v", err)
	}
	s.Close()
	e := embedded.Store("embed:" + dir)
	if _, err := e.Get(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if err := works(t, rotanats.Store(s.URL())); err == nil {
		t.Error("the folder is embedded, and somebody answers at the port where it was open")
	}
	e.Close()
	again := serveTCP(t, dir, "nats://HOST")
	if err := works(t, rotanats.Store(again.URL())); err == nil || !strings.Contains(err.Error(), "Authorization Violation") {
		t.Errorf("without the key: %v", err)
	}
	if err := works(t, embedded.Store("embed:"+dir)); err != nil {
		t.Errorf("by the folder: %v", err)
	}
}

// TestFolderOfAnEarlierVersion uses a folder whose note has a token and a port: neither is
// used any more.
func TestFolderOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := newImpostor(t)
	old := `{"address":"` + l.Addr().String() + `","token":"` + hidden + `","open":true,"pid":1}`
	if err := os.WriteFile(filepath.Join(dir, "rota.address"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := works(t, embedded.Store("embed:"+dir)); err != nil {
		t.Error(err)
	}
	if err := sourceError(t, "embed:"+dir); err == nil || !strings.Contains(err.Error(), "nobody serves it now") {
		t.Errorf("when nobody serves it: %v", err)
	}
	if received := l.received(); received != "" {
		t.Errorf("whoever listens at the old port heard %q", received)
	}
}

// TestKeyOfTheFolder checks that TCP clients with the folder's key can sign in and others
// cannot, and that an impostor at the port learns nothing with which it could.
func TestKeyOfTheFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := serveTCP(t, dir, "nats://HOST")
	file := filepath.Join(dir, "rota.nkey")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key: %v, %v", info, err)
	}
	if err := works(t, rotanats.Store(s.URL()+"?nkey="+file)); err != nil {
		t.Errorf("with the key: %v", err)
	}
	other := filepath.Join(t.TempDir(), "data")
	serveTCP(t, other, "nats://HOST").Close()
	for name, url := range map[string]string{
		"nobody":          s.URL(),
		"another key":     s.URL() + "?nkey=" + filepath.Join(other, "rota.nkey"),
		"a made-up token": s.URL() + "?token=" + hidden,
		"an empty user":   "nats://:@" + s.Addr(),
	} {
		if err := works(t, rotanats.Store(url)); err == nil || !strings.Contains(err.Error(), "Authorization Violation") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := works(t, rotanats.Store(s.URL()+"?nkey="+file+".no")); err == nil || !strings.Contains(err.Error(), "the key file") {
		t.Errorf("a key that is not there: %v", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	seed := strings.TrimSpace(string(text))
	// An impostor receives the public half, and old signatures.
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, sign := range map[string]nats.SignatureHandler{
		"no signature":         func([]byte) ([]byte, error) { return nil, nil },
		"another's signature":  func([]byte) ([]byte, error) { return make([]byte, 64), nil },
		"one of another nonce": func([]byte) ([]byte, error) { return pair.Sign([]byte("abcdefghijk")) },
	} {
		nc, err := nats.Connect(s.URL(), nats.Nkey(public, sign), nats.NoReconnect())
		if err == nil {
			nc.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "Authorization Violation") {
			t.Errorf("the public key with %s: %v", name, err)
		}
	}
	seedGiven(t, s.URL(), seed)
	s.Close()
	l := newImpostor(t)
	if nc, err := rotanats.Connect("nats://"+l.Addr().String()+"?nkey="+file, []nats.Option{nats.NoReconnect()}); err == nil {
		nc.Close()
		t.Error("it takes anybody for its server")
	}
	received := l.received()
	if !strings.Contains(received, `"nkey":"U`) || strings.Contains(received, seed) {
		t.Errorf("a squatter heard %q", received)
	}
	again := serveTCP(t, dir, "nats://HOST")
	if err := works(t, rotanats.Store(again.URL()+"?nkey="+file)); err != nil {
		t.Errorf("with the same key, later: %v", err)
	}
}

// seedGiven gives the seed of a key in the URL, as a URL from the environment may have it.
func seedGiven(t *testing.T, url, seed string) {
	t.Helper()
	st := rotanats.Store(url + "?nkey-seed=" + seed)
	if err := works(t, st); err != nil {
		t.Errorf("with the seed: %v", err)
	}
	operator, err := nkeys.CreateOperator()
	if err != nil {
		t.Fatal(err)
	}
	ofOperator, err := operator.Seed()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ query, says string }{
		{"nkey=" + seed, "give the seed itself as nkey-seed"},
		{"nkey-seed=" + seed[1:], "want the seed of a user's NKey"},
		{"nkey-seed=" + string(ofOperator), "want the seed of a user's NKey"},
		{"nkey-seed=" + seed + "&nkey=f", "nkey and nkey-seed: give one of them"},
		{"nkey-seed=" + seed + "&token=t", "nkey and another way to sign in"},
	} {
		bad := rotanats.Store(url + "?" + c.query)
		_, err := bad.Get(t.Context(), "k")
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %s", err, c.says)
		}
		for _, x := range []any{st, bad, err} {
			if text := fmt.Sprintf("%v %+v %#v", x, x, x); strings.Contains(text, seed[1:]) || strings.Contains(text, string(ofOperator)) {
				t.Errorf("the seed is told: %s", text)
			}
		}
	}
	if err := rotanats.Check("folder:d?nkey-seed=" + seed); err == nil || !strings.Contains(err.Error(), "reached through its socket") {
		t.Errorf("of a folder: %v", err)
	}
}
