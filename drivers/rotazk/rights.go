package rotazk

import (
	"fmt"
	"strings"

	"github.com/rota-dev/rota/internal/address"
)

// A right says what one identity may do with a node: one entry of an ACL.
type right struct {
	scheme, id string
	perms      int32
}

// letters are the permissions in the order of their bits, as ZooKeeper's own tools
// write them: read, write, create, delete, administer.
const letters = "rwcda"

// allPerms are all permissions.
const allPerms = 1<<len(letters) - 1

// parseRights parses SCHEME:ID:PERMS,SCHEME:ID:PERMS. An identity may contain colons.
// The errors do not repeat it, since the hash of a password may be in it.
func parseRights(list string) (rights []right, err error) {
	for i, entry := range strings.Split(list, ",") {
		scheme, rest, ok := strings.Cut(entry, ":")
		colon := strings.LastIndexByte(rest, ':')
		if !ok || colon < 0 || !address.Plain(scheme) {
			return nil, fmt.Errorf("entry %d: write SCHEME:ID:PERMS, such as digest:USER:HASH:cdrwa, auth::cdrwa or world:anyone:r", i+1)
		}
		r := right{scheme: scheme, id: rest[:colon]}
		for _, letter := range rest[colon+1:] {
			bit := strings.IndexRune(letters, letter)
			if bit < 0 {
				return nil, fmt.Errorf("entry %d: write its permissions as letters of cdrwa: create, delete, read, write, administer", i+1)
			}
			r.perms |= 1 << bit
		}
		switch {
		case r.perms == 0:
			return nil, fmt.Errorf("entry %d permits nothing: write some letters of cdrwa at its end, or leave it out", i+1)
		case r.scheme == "world" && r.id != "anyone":
			return nil, fmt.Errorf("entry %d: the scheme world knows one identity: write world:anyone:PERMS", i+1)
		case r.scheme == "auth" && r.id != "":
			return nil, fmt.Errorf("entry %d: the scheme auth means the user of the URL: write auth::PERMS", i+1)
		case r.scheme == "digest" && !strings.Contains(r.id, ":"):
			return nil, fmt.Errorf("entry %d: write digest:USER:HASH:PERMS, where HASH is the base64 of the SHA-1 of USER:PASSWORD, with + escaped as %%2B", i+1)
		}
		rights = append(rights, r)
	}
	return rights, nil
}
