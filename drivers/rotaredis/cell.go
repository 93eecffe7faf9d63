package rotaredis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/internal/address"
)

// All records of a group are fields of one hash, rota:{GROUP}, so that a Cluster keeps
// them together and a list of them is one read. The field of the key GROUP/member/x is
// /member/x, its value is "N.NONCE VALUE". N counts the changes of the group and NONCE is
// random: a failover that loses a write counts on from an older N, and the revision that
// was lost must not come again with another value.
//
// Two fields are no records: #n is the count and #id is random, made with the hash, so that a
// watch notices a hash that was deleted and made anew.
const (
	fieldCount = "#n"
	fieldID    = "#id"
	nonceBits  = 24
	mostCount  = 1<<(64-nonceBits) - 1
)

// maxValue is the size of the largest value. A record has at most 768 KiB.
const maxValue = 1 << 20

var (
	change   = redis.NewScript(changeText)
	list     = redis.NewScript(listText)
	remove   = redis.NewScript(removeText)
	sourceOf = map[*redis.Script]string{change: changeText, list: listText, remove: removeText}
)

// changeText writes or deletes a record if it is at the expected revision, and publishes the
// count and the name of its field. It returns the new count, or 0 for a conflict.
//
//	KEYS: the hash
//	ARGV: put or del, field, expected revision, new id, nonce, value, PUBLISH or SPUBLISH, channels
const changeText = `
local old = redis.call('HGET', KEYS[1], ARGV[2])
local at = old and string.match(old, '^%S+') or ''
if at ~= ARGV[3] then return 0 end
redis.call('HSETNX', KEYS[1], '#id', ARGV[4])
local n = redis.call('HINCRBY', KEYS[1], '#n', 1)
if ARGV[1] == 'put' then
  redis.call('HSET', KEYS[1], ARGV[2], n .. '.' .. ARGV[5] .. ' ' .. ARGV[6])
else
  redis.call('HDEL', KEYS[1], ARGV[2])
end
for i = 8, #ARGV do redis.call(ARGV[7], ARGV[i], n .. ' ' .. ARGV[2]) end
return n
`

// listText returns the id of the hash, then field and value of each record under a prefix.
//
//	KEYS: the hash
//	ARGV: the prefix of the fields
const listText = `
local all = {redis.call('HGET', KEYS[1], '#id') or ''}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, #ARGV[1]) == ARGV[1] then
    all[#all + 1] = field
    all[#all + 1] = redis.call('HGET', KEYS[1], field)
  end
end
return all
`

// removeText removes a hash without records, by the commands that members may use anyway.
// It returns the number of records that are there.
//
//	KEYS: the hash
const removeText = `
local n = 0
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if field ~= '#n' and field ~= '#id' then n = n + 1 end
end
if n == 0 then redis.call('HDEL', KEYS[1], '#n', '#id') end
return n
`

// openNews reads a message: "N FIELD".
func openNews(text string) (n uint64, field string, ok bool) {
	count, field, ok := strings.Cut(text, " ")
	n, err := strconv.ParseUint(count, 10, 64)
	return n, field, ok && err == nil && n > 0 && n <= mostCount
}

// checkKey refuses keys that have no field or channel of their own.
func checkKey(key string) error {
	if key == "" || len(key) > 128 || strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/") || strings.Contains(key, "//") ||
		strings.IndexFunc(key, func(r rune) bool { return !address.PlainRune(r) && r != '/' }) >= 0 {
		return fmt.Errorf("rotaredis: key %.140q: use A-Z, a-z, 0-9, _, - and single slashes between, at most 128 bytes", key)
	}
	return nil
}

// checkPrefix refuses what is neither a key nor a key and a slash. There is no watch of all
// groups: they may be on different nodes of a Cluster.
func checkPrefix(prefix string) error { return checkKey(strings.TrimSuffix(prefix, "/")) }

// split returns the group of a key, or of a prefix, and the field.
func split(key string) (group, field string) {
	if i := strings.IndexByte(key, '/'); i >= 0 {
		return key[:i], key[i:]
	}
	return key, ""
}

// hash is the Redis key of a group. The braces are the hash tag of a Cluster.
func (s *settings) hash(group string) string { return s.prefix + ":{" + group + "}" }

// channels are the channels that tell of a change of a field: its own and one for each
// prefix above it. Patterns are not used: an ACL matches those by their exact text.
func (s *settings) channels(group, field string) (all []string) {
	hash := s.hash(group)
	for i, r := range field {
		if r == '/' {
			all = append(all, hash+field[:i+1])
		}
	}
	return append(all, hash+field)
}

func newNonce() uint64 { return rand.Uint64N(1 << nonceBits) }

// revision makes a Rev of a count and a nonce.
func revision(n, nonce uint64) (rota.Rev, error) {
	if n == 0 || n > mostCount || nonce >= 1<<nonceBits {
		return 0, fmt.Errorf("rotaredis: revision %d.%d is out of range", n, nonce)
	}
	return rota.Rev(n<<nonceBits | nonce), nil
}

// revText is a revision as a record has it, "" of none.
func revText(rev rota.Rev) string {
	if rev == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", uint64(rev)>>nonceBits, uint64(rev)&(1<<nonceBits-1))
}

var errForeign = errors.New("it does not begin with a revision: it is not rota's")

// openCell reads the value of a field.
func openCell(text string) (rota.Rev, []byte, error) {
	at, value, ok := strings.Cut(text, " ")
	count, nonce, dotted := strings.Cut(at, ".")
	n, err := strconv.ParseUint(count, 10, 64)
	x, err2 := strconv.ParseUint(nonce, 10, 64)
	if !ok || !dotted || err != nil || err2 != nil {
		return 0, nil, errForeign
	}
	rev, err := revision(n, x)
	if err != nil {
		return 0, nil, err
	}
	if revText(rev) != at { // such as 007.1: no compare-and-set would ever match it
		return 0, nil, errForeign
	}
	return rev, []byte(value), nil
}
