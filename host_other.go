//go:build !linux

package rota

import (
	"os"

	"github.com/rota-dev/rota/internal/record"
)

func thisHost() record.Host { return record.Host{PID: uint32(os.Getpid())} }
