package folder

import (
	"io/fs"
	"strings"
	"testing"
)

func TestNoPermissionIsSaid(t *testing.T) {
	err := Folder{Dir: "/data"}.Explain(&fs.PathError{Op: "mkdir", Path: "/data", Err: fs.ErrPermission})
	if !strings.Contains(err.Error(), "no permission for the folder /data") {
		t.Error(err)
	}
}
