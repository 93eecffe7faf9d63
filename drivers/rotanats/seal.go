package rotanats

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// An echo is an ordinary message: every client that may publish to its subject could
// claim that a member has left, and the next owner would start while the member still
// runs. So each write carries a seal, a MAC whose key is in the metadata of the bucket's
// stream, where only users of the bucket can read it. An echo without a valid seal is a
// hint: the record is read before the change counts.
//
// The seal does not cover the revision, which is not known before the write. A sealed
// echo can therefore be replayed; but an echo can be late anyway, and records contain
// their own age.
const (
	headerSeal = "Rota-Seal"
	metaSeal   = "rota_seal" // in the stream's metadata: the key, 32 bytes in hex
)

// newSeal returns a new key for a bucket.
func newSeal() string {
	key := make([]byte, 32)
	rand.Read(key)
	return hex.EncodeToString(key)
}

// sealKey returns the key of a bucket, nil if it has none.
func sealKey(c *jetstream.StreamConfig) []byte {
	key, err := hex.DecodeString(c.Metadata[metaSeal])
	if err != nil || len(key) != 32 {
		return nil
	}
	return key
}

// seal returns the MAC of a write.
func seal(key []byte, subject, operation string, value []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(subject + "\x00" + operation + "\x00"))
	mac.Write(value)
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// sealed tells whether msg has the seal of a write to subject.
func sealed(key []byte, subject string, msg *nats.Msg) bool {
	if key == nil {
		return false
	}
	want := seal(key, subject, msg.Header.Get(headerOperation), msg.Data)
	return hmac.Equal([]byte(want), []byte(msg.Header.Get(headerSeal)))
}

// sealing returns the bucket's key, as it was last read.
func (s *store) sealing() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seal
}

func (s *store) sealWith(c *jetstream.StreamConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seal = sealKey(c)
}
