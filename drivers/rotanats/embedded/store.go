// Package embedded brings NATS along where there is none: a server within the process
// that uses it, with its data in a folder. Programs that only connect to servers use
// package rotanats alone, and do not carry nats-server.
//
// What it does not promise: it is good for one host, and as long as that lives. A
// server that is frozen keeps the folder: then nobody can renew a lease.
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

// Store is rotanats.Store, for embed:DIR as well: it keeps records in a folder, by a
// NATS server that the processes of one host share. The first process serves the
// folder, the others connect to it through a socket in the folder; when it ends,
// however it ends, another takes over the same data, within a fraction of a lease.
// Every write is synced to disk before it is acknowledged. No other user but root can
// connect.
func Store(url string, opts ...rotanats.Option) rota.Store {
	return rotanats.Store(url, slices.Concat(opts, []rotanats.Option{hosted})...)
}

func hosted(s *address.Settings) { s.Host = host }

// host serves the folder of an embed: URL for the processes of this host, as long as
// this one needs it.
func host(s *address.Settings) (address.Host, error) {
	server, err := serve(s.AsFolder(), "", s, false)
	if err != nil {
		return nil, err // and not a Host that holds nil
	}
	return server, nil
}
