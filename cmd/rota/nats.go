package main

import (
	"strings"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotanats"
)

// natsStore opens nats://… and tls://….
func natsStore(raw string) (rota.Store, error) {
	if err := rotanats.Check(raw); err != nil {
		return nil, natsWords(err)
	}
	return rotanats.Store(raw), nil
}

// embedStore opens embed:DIR: the first process of the host to come serves it.
func embedStore(raw string) (rota.Store, error) {
	if err := rotanats.Check(raw); err != nil {
		return nil, natsWords(err)
	}
	return rotanats.Embed(strings.TrimPrefix(raw, "embed:")), nil
}

// natsWords takes the driver's name off: the flag is named instead.
func natsWords(err error) error { return plainError(strings.TrimPrefix(err.Error(), "rotanats: ")) }

type plainError string

func (e plainError) Error() string { return string(e) }
