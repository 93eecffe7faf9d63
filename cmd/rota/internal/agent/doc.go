// Package agent is rota run: a member whose handlers are commands or HTTP servers, and
// the watchdog that ends its commands before its lease does.
package agent
