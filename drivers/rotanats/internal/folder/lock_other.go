//go:build !unix

package folder

import (
	"errors"
	"os"
)

// flock returns an error: without a lock that ends with its process, two servers could
// write to one folder.
func flock(*os.File) error {
	return errors.New("embedding a server needs a system with flock: run one with rota serve and use its nats:// address")
}
