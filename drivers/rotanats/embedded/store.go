// Package embedded runs a NATS server within the process that uses it, with its data in
// a folder. Programs that only connect to servers use package rotanats alone, and do not
// link nats-server.
//
// What it does not promise: it serves one host, and ends with that host. A server whose
// process is stopped by a signal keeps the folder locked: then no member can renew its
// lease.
//
//	Store   a group's records, on a server that the processes of one host share
//	Serve   the server alone, for others to connect to
package embedded

import (
	"slices"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/internal/address"
)

// Store is rotanats.Store that can open embed:DIR as well: it keeps records in a folder,
// on a NATS server that the processes of one host share. The first process runs the
// server, and the others connect to it through a socket in the folder. When that process
// ends, in whatever way, another takes over the same data within a fraction of a lease.
// Every write is synced to disk before it is acknowledged. No other user but root can
// connect.
func Store(url string, opts ...rotanats.Option) rota.Store {
	return rotanats.Store(url, slices.Concat(opts, []rotanats.Option{hosted})...)
}

func hosted(s *address.Settings) { s.Host = host }

// host starts the server of an embed: URL, for the processes of this host only.
func host(s *address.Settings) (address.Host, error) {
	server, err := serve(s.AsFolder(), "", s, false)
	if err != nil {
		return nil, err // returning server would make a Host that is not nil
	}
	return server, nil
}
