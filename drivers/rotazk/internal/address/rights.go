package address

import (
	"fmt"
	"strings"
)

// letters are the permissions in the order of their bits, as ZooKeeper's own tools
// write them: read, write, create, delete, administer.
const letters = "rwcda"

// AllPerms are all permissions.
const AllPerms = 1<<len(letters) - 1

// parseRights parses SCHEME:ID:PERMS,SCHEME:ID:PERMS. An identity may contain colons.
// The errors do not repeat it, since the hash of a password may be in it.
func parseRights(list string) (rights []Right, err error) {
	for i, entry := range strings.Split(list, ",") {
		scheme, rest, ok := strings.Cut(entry, ":")
		colon := strings.LastIndexByte(rest, ':')
		if !ok || colon < 0 || !plain(scheme) {
			return nil, fmt.Errorf("entry %d: write SCHEME:ID:PERMS, such as digest:USER:HASH:cdrwa, auth::cdrwa or world:anyone:r", i+1)
		}
		r := Right{Scheme: scheme, ID: rest[:colon]}
		for _, letter := range rest[colon+1:] {
			bit := strings.IndexRune(letters, letter)
			if bit < 0 {
				return nil, fmt.Errorf("entry %d: write its permissions as letters of cdrwa: create, delete, read, write, administer", i+1)
			}
			r.Perms |= 1 << bit
		}
		switch {
		case r.Perms == 0:
			return nil, fmt.Errorf("entry %d permits nothing: write some letters of cdrwa at its end, or leave it out", i+1)
		case r.Scheme == "world" && r.ID != "anyone":
			return nil, fmt.Errorf("entry %d: the scheme world knows one identity: write world:anyone:PERMS", i+1)
		case r.Scheme == "auth" && r.ID != "":
			return nil, fmt.Errorf("entry %d: the scheme auth means the user of the URL: write auth::PERMS", i+1)
		case r.Scheme == "digest" && !strings.Contains(r.ID, ":"):
			return nil, fmt.Errorf("entry %d: write digest:USER:HASH:PERMS, where HASH is the base64 of the SHA-1 of USER:PASSWORD, with + escaped as %%2B", i+1)
		}
		rights = append(rights, r)
	}
	return rights, nil
}
