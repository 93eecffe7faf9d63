package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/scale"
)

// scaleFile is the socket, in the folder of a rota up, that its members ask for others by.
const scaleFile = "rota.scale"

// checkScale decides with how many members a group begins that changes its size.
func (f *upFlags) checkScale(changed func(string) bool) error {
	switch {
	case f.most == 0 && changed("capacity"):
		return cli.Usagef("--capacity is for --scale, which is missing: say how many members there may be, as --scale 1..8")
	case f.most == 0:
		return nil
	case f.most > mostMembers:
		return cli.Usagef("--scale %d..%d: %d members are the most on one machine", f.least, f.most, mostMembers)
	case !changed("members"):
		f.members = f.least
	case f.members < f.least || f.members > f.most:
		return cli.Usagef("--members %d is not within --scale %d..%d: leave --members out", f.members, f.least, f.most)
	}
	return nil
}

// size is how many members there are, for people.
func (f *upFlags) size() string {
	if f.most == 0 {
		return cli.Count(f.members, "member")
	}
	return fmt.Sprintf("%d to %s", f.least, cli.Count(f.most, "member"))
}

// scaleArgs are the flags of members that ask for others.
func (f *upFlags) scaleArgs() []string {
	if f.most == 0 {
		return nil
	}
	return []string{"--strategy", "pack", "--capacity", strconv.Itoa(f.capacity),
		"--scaler", "local:" + filepath.Join(f.dir, scaleFile), "--scale", fmt.Sprintf("%d..%d", f.least, f.most)}
}

// listenForScale makes the socket, if the group changes its size.
func (f *upFlags) listenForScale() (net.Listener, error) {
	if f.most == 0 {
		return nil, nil
	}
	l, err := scale.Listen(filepath.Join(f.dir, scaleFile))
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "scale: "))
	}
	return l, nil
}

// serveScale obeys the leader's scaler until ctx ends. The channel gets one value, when
// nobody starts or ends members any more.
func (f *upFlags) serveScale(ctx context.Context, l net.Listener, sup *supervisor) <-chan error {
	done := make(chan error, 1)
	if l == nil {
		done <- nil
		return done
	}
	go func() {
		store, err := connect.OpenStore("folder:" + f.dir)
		if err != nil {
			l.Close()
			done <- err
			return
		}
		defer store.Close()
		done <- scale.Serve(ctx, l, &scaled{ctx, sup, store, f.most})
	}()
	return done
}

// A scaled supervisor starts and ends members because a Scaler asks for it.
type scaled struct {
	ctx   context.Context // of serveScale
	sup   *supervisor
	store rota.Store
	most  int
}

func (s *scaled) Running() int { return len(s.sup.staying()) }

func (s *scaled) Start() error {
	if n := s.Running(); n >= s.most {
		return fmt.Errorf("%d is the most that --scale allows", n)
	}
	_, err := s.sup.start(s.sup.nextName())
	return err
}

// End asks a member to leave if it owns nothing. The order may be that of a leader that
// was frozen meanwhile, so the plan is looked at once more.
func (s *scaled) End(name, session string) error {
	c, err := s.sup.find(name, session)
	if c == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, connect.StoreTime)
	defer cancel()
	st, err := rota.Inspect(ctx, s.store, demoGroup)
	if err != nil {
		return fmt.Errorf("nobody can tell whether it owns nothing: %w", err)
	}
	for _, m := range st.Members {
		if m.Session == session && m.Partitions > 0 {
			return fmt.Errorf("it owns %s", cli.Count(m.Partitions, "partition"))
		}
	}
	s.sup.end(c)
	return nil
}

// staying are the members that run and that nobody has asked to leave.
func (s *supervisor) staying() []*child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.children), func(c *child) bool { return c.over || c.leaving })
}

// nextName is a name that no member of this rota up has had.
func (s *supervisor) nextName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("c%d", len(s.children)+1)
}

// find finds a member that runs; nil if it has ended, or ends already.
func (s *supervisor) find(name, session string) (*child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.children, func(c *child) bool { return c.name == name })
	switch {
	case i < 0:
		return nil, errors.New("this rota up has never started it")
	case s.children[i].over || s.children[i].leaving:
		return nil, nil
	case s.children[i].session != session:
		return nil, errors.New("it runs in another session by now")
	}
	return s.children[i], nil
}

// end asks one member to leave, and kills it if it does not.
func (s *supervisor) end(c *child) {
	s.mu.Lock()
	c.leaving = true
	s.mu.Unlock()
	c.cmd.Process.Signal(syscall.SIGTERM)
	wake(c.cmd.Process)
	time.AfterFunc(patienceToLeave, func() { c.cmd.Process.Kill() }) // an error if it is gone
}
