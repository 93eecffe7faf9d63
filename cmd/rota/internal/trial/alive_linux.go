package trial

import (
	"strconv"
	"strings"

	"github.com/rota-dev/rota/cmd/rota/internal/proc"
)

// Alive: a zombie is not.
func Alive(pid int) bool {
	s, ok := proc.Read(pid)
	return ok && !s.Dead()
}

// PIDs reads a word per line that is a process id.
func PIDs(text string) (out []int) {
	for w := range strings.FieldsSeq(text) {
		if pid, err := strconv.Atoi(w); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// NotAllowed begins what a test says that this machine does not let be done.
const NotAllowed = "NOT ALLOWED: "
