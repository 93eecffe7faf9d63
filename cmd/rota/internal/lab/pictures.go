package lab

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/rota-dev/rota/cmd/rota/internal/lab/drawing"
	"github.com/spf13/cobra"
)

// picturesCmd makes the pictures of docs/pictures.
func picturesCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "pictures FOLDER",
		Short:   "Draw the pictures of the pages into a folder",
		Long:    "Pictures draws members, lease, hand-over and the screen of rota up, as SVG.",
		Example: "  rota-dev pictures docs/pictures",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := pictures()
			if err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(all)) {
				if err := os.WriteFile(filepath.Join(args[0], name), []byte(all[name]), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// pictures are the files of docs/pictures that are drawn here.
func pictures() (map[string]string, error) {
	up, err := drawing.Up()
	return map[string]string{"members.svg": drawing.Members(), "lease.svg": drawing.Lease(), "hand-over.svg": drawing.Move(), "up.svg": up}, err
}
