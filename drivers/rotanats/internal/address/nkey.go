package address

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/rota-dev/rota/internal/address"
)

// An NKey signs what the server sends, and its seed stays here. It is in a file, or in a URL
// that comes from the environment or a file itself.

// publicKey returns the public half of a user's seed.
func publicKey(seed string) (string, error) {
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err == nil && !nkeys.IsValidPublicUserKey(public) {
		err = errors.New("it is not that of a user")
	}
	return public, err
}

// keyFile is the parameter nkey. A seed in its place must not be shown as the name of a file
// that does not exist.
func keyFile(to *string, v string) error {
	if _, err := nkeys.FromSeed([]byte(v)); err == nil {
		return errors.New("want the name of a file: give the seed itself as nkey-seed")
	}
	return address.File(to, v)
}

// keySeed is the parameter nkey-seed.
func keySeed(to *Secret, v string) error {
	if _, err := publicKey(v); err != nil {
		return errors.New("want the seed of a user's NKey, which begins with SU, or leave the parameter out")
	}
	*to = Secret(v)
	return nil
}

// dialingKey returns the option of the NATS client that signs in with a key.
func (s *Settings) dialingKey() ([]nats.Option, error) {
	switch {
	case s.NKey != "":
		key, err := nats.NkeyOptionFromSeed(s.NKey)
		if err != nil {
			return nil, fmt.Errorf("the key file: %w", err)
		}
		return []nats.Option{key}, nil
	case s.NKeySeed != "":
		public, err := publicKey(string(s.NKeySeed))
		if err != nil {
			return nil, err
		}
		return []nats.Option{nats.Nkey(public, s.sign)}, nil
	}
	return nil, nil
}

func (s *Settings) sign(nonce []byte) ([]byte, error) {
	pair, err := nkeys.FromSeed([]byte(s.NKeySeed))
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	return pair.Sign(nonce)
}
