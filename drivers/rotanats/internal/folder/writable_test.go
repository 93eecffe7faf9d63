package folder

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWritableLeavesNothing: the file that shows whether there is space is gone after it.
func TestWritableLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := (Folder{Dir: dir}).Writable(1, false); err == nil {
		t.Error("a folder that does not exist can be written to")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, sync := range []bool{false, true} {
		if err := (Folder{Dir: dir}).Writable(1<<20, sync); err != nil {
			t.Error(err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("the folder holds %v, %v", list, err)
	}
}
