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

// An echo is an ordinary message: whoever may publish to its subject can say that
// a member has left, and the next owner would start beside it. So each write is
// sealed with a key that only holders of the bucket can read, in the metadata of
// its stream, and an echo without that seal is a hint: what it speaks of is read.
//
// The seal does not cover the revision, which nobody knows before the write. A
// sealed echo can be sent again later, then; but so can an echo be late, and
// records tell their own age.
const (
	headerSeal = "Rota-Seal"
	metaSeal   = "rota_seal" // of the stream's metadata, 32 bytes in hex
)

// newSeal makes the key of a bucket.
func newSeal() string {
	key := make([]byte, 32)
	rand.Read(key)
	return hex.EncodeToString(key)
}

// sealKey is the key of a bucket, nil if it has none.
func sealKey(c *jetstream.StreamConfig) []byte {
	key, err := hex.DecodeString(c.Metadata[metaSeal])
	if err != nil || len(key) != 32 {
		return nil
	}
	return key
}

// seal says that somebody who has the key writes this.
func seal(key []byte, subject, operation string, value []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(subject + "\x00" + operation + "\x00"))
	mac.Write(value)
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// sealed tells whether msg, an echo of a write to subject, is what it says.
func sealed(key []byte, subject string, msg *nats.Msg) bool {
	if key == nil {
		return false
	}
	want := seal(key, subject, msg.Header.Get(headerOperation), msg.Data)
	return hmac.Equal([]byte(want), []byte(msg.Header.Get(headerSeal)))
}

// sealing returns the bucket's key, as last told.
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
