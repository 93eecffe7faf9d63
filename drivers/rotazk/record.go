package rotazk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/rota-dev/rota"
)

// A cell is a node, and its value is the node's data. The version of a node counts from
// 0 again when it is deleted and created, so a version alone is no revision: each life
// of a node, from its creation to its deletion, has a random number. The number is in
// the node's data for readers, and in the name of its one child, the guard, for writers:
// ZooKeeper checks in one transaction that the guard is there and that the node is at
// the version expected.
type life uint32

func newLife() life { return life(1 + rand.N[uint32](1<<32-1)) }

// revision is the life and the version within it.
func revision(l life, version int32) rota.Rev { return rota.Rev(l)<<32 | rota.Rev(uint32(version)) }

func split(rev rota.Rev) (life, int32) { return life(rev >> 32), int32(uint32(rev)) }

func (l life) guard(node string) string { return fmt.Sprintf("%s/%08x", node, uint32(l)) }

// format is the first byte of every node. A later format gets another number.
const format = 1

const headerSize = 5 // format and life

var errForeign = errors.New("this node was not written by rota")

func encode(l life, value []byte) []byte {
	b := make([]byte, headerSize, headerSize+len(value))
	b[0] = format
	binary.BigEndian.PutUint32(b[1:], uint32(l))
	return append(b, value...)
}

func decode(data []byte) (life, []byte, error) {
	if len(data) < headerSize || data[0] != format {
		return 0, nil, errForeign
	}
	l := life(binary.BigEndian.Uint32(data[1:]))
	if l == 0 {
		return 0, nil, errForeign
	}
	return l, data[headerSize:], nil
}

func entry(key string, data []byte, stat *zk.Stat) (rota.Entry, error) {
	l, value, err := decode(data)
	if err != nil {
		return rota.Entry{}, err
	}
	return rota.Entry{Key: key, Value: value, Rev: revision(l, stat.Version)}, nil
}

// The first step of a key is a node, and the rest is the name of one child of it, with
// colons for slashes: g/member/x is CHROOT/g/member:x. So a list of children shows one
// group, a and a/b can both be keys, and an administrator can give each group a node of
// its own. A key of one step is the child named alone.
const alone = "="

// paths returns the parent node of a key and the name of its child.
func paths(key string) (parent, name string) {
	parent, rest, ok := strings.Cut(key, "/")
	if !ok {
		return parent, alone
	}
	return parent, strings.ReplaceAll(rest, "/", ":")
}

// keyOf is the inverse of paths. ok is false for names that no key has.
func keyOf(parent, name string) (key string, ok bool) {
	key = parent
	if strings.Contains(parent+name, "/") {
		return "", false
	}
	if name != alone {
		key += "/" + strings.ReplaceAll(name, ":", "/")
	}
	return key, checkKey(key) == nil
}

// checkKey refuses what is no key of a Store.
func checkKey(key string) error {
	if key == "" || len(key) > 128 || strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/") || strings.Contains(key, "//") ||
		strings.IndexFunc(key, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '/')
		}) >= 0 {
		return fmt.Errorf("rotazk: key %.140q: use A-Z, a-z, 0-9, _, - and single slashes between, at most 128 bytes", key)
	}
	return nil
}
