package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how long signals to end count as one. GNU timeout sends two within
// milliseconds, one to the process and one to its group, and a supervisor that repeats
// itself is not a person who has lost patience: ending at once would cost the group a
// lease of waiting.
const sameSignal = time.Second

// Main is the process around a program. The first signal to end asks the program to
// end. From sameSignal after it, the next signal ends the process at once.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	if err := notSetuid(); err != nil {
		refuse(err)
	}
	slog.SetDefault(slog.New(warnTo(os.Stderr)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(sameSignal, stop) })
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// notSetuid refuses to run with other rights than those of the caller: the command
// line says what to run, and the watchdog is told so on a file descriptor.
func notSetuid() error {
	switch uid, euid, gid, egid := os.Getuid(), os.Geteuid(), os.Getgid(), os.Getegid(); {
	case uid != euid:
		return Usagef("called by user %d, but runs as user %d: rota must not be setuid; take the mode away with chmod u-s", uid, euid)
	case gid != egid:
		return Usagef("called by group %d, but runs as group %d: rota must not be setgid; take the mode away with chmod g-s", gid, egid)
	}
	return nil
}

// refuse ends the process before it has begun.
func refuse(err error) {
	fmt.Fprintf(os.Stderr, "rota: %v\n", err)
	os.Exit(ExitUsage)
}
