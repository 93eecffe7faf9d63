package cli

import (
	"context"
	"errors"
	"testing"

	"github.com/spf13/cobra"
)

func TestOnlyWorkThatBeganExits1(t *testing.T) {
	var began bool
	root := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true}
	sub := &cobra.Command{Use: "do", RunE: func(*cobra.Command, []string) error { return errors.New("broken") }}
	sub.Flags().String("need", "", "")
	if err := sub.MarkFlagRequired("need"); err != nil {
		t.Fatal(err)
	}
	root.AddCommand(sub)
	prepare(root, func() { began = true }, func(*cobra.Command) {})

	root.SetArgs([]string{"do"})
	if err := root.ExecuteContext(context.Background()); err == nil || began {
		t.Errorf("without its required flag: err %v, began %v", err, began)
	}
	root.SetArgs([]string{"do", "--need", "it"})
	if err := root.ExecuteContext(context.Background()); err == nil || !began {
		t.Errorf("with its required flag: err %v, began %v", err, began)
	}
}
