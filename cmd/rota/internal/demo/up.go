package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/drivers/rotanats"
	"github.com/rota-dev/rota/drivers/rotanats/embedded"
	"github.com/spf13/cobra"
)

// upFlags are what rota up is told.
type upFlags struct {
	members, partitions, rate int
	least, most, capacity     int // of --scale and --capacity; most is 0 without
	dir, listen, handle       string
	open                      bool
	length                    time.Duration
}

func newUpFlags() *upFlags { return &upFlags{members: 3, partitions: 16, rate: 200, capacity: 100} }

const (
	demoGroup  = "demo"
	demoStream = "DEMO"

	mostMembers = 64 // on one machine
)

func UpCmd() *cobra.Command {
	f := newUpFlags()
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a group on this machine: real processes, real messages",
		Long: `Up runs a NATS server in this process, with its data and its socket in ./rota-data,
which is yours alone, publishes
messages to a stream of it at a steady rate, and starts members as processes of their
own that share the stream's partitions. It shows what happens, and says what to try:
add a member, kill one, freeze one.

With --scale the group changes its size with its load: the leader asks this process for
members, by the socket rota.scale in the folder, and lets it end those that own nothing.

Ctrl-C lets everybody leave in good order. The folder stays, and the next rota up goes
on from there. Members leave by themselves if this process is killed.

The members have a heartbeat every 2 s and a lease of 5 s; ROTA_LEASE and
ROTA_HEARTBEAT change that.`,
		Example: `  rota up
  rota up --members 5 --partitions 64 --rate 2000
  rota up --scale 1..8 --rate 500
  rota up --for 30s > up.log            without a terminal: a line per event`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(f.checkScale(cmd.Flags().Changed), f.goOn(cmd.Flags().Changed("partitions"))); err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.Var(cli.Whole(&f.members, 1, mostMembers), "members", "how many members to start, 1 to 64")
	fl.Var(cli.Sizes(&f.least, &f.most), "scale", "how many members there may be, as 1..8: the load decides (default: as many as --members)")
	fl.Var(cli.Whole(&f.capacity, 1, 1_000_000), "capacity", "with --scale: messages per second that one member is to handle")
	fl.Var(cli.Whole(&f.partitions, 1, 1024), "partitions", "how many partitions they share, 1 to 1024; a folder that has some keeps them")
	fl.Var(cli.Whole(&f.rate, 0, 100_000), "rate", "messages per second, over all partitions")
	fl.Var(connect.Dir(&f.dir), "dir", "the folder for the server's data")
	fl.StringVar(&f.handle, "handle", "none", "what members do with a message, as rota run --handle; http:URL and worker:CMD are your own")
	fl.StringVar(&f.listen, "listen", "", "HOST:PORT for clients that come by TCP, with the key in the folder (default: none can)")
	fl.BoolVar(&f.open, "open", false, "let in every user of this machine by --listen, without a secret")
	fl.Var(showTime{&f.length}, "for", "end after this time (default: at Ctrl-C)")
	return cmd
}

// goOn takes the number of partitions from the folder, unless it was given. A group only
// gains partitions by its source, so fewer than there are cannot be had.
func (f *upFlags) goOn(given bool) error {
	had := connect.FolderPartitions(f.dir)
	switch {
	case !given && had > 0:
		f.partitions = had
	case f.partitions < had:
		return cli.Usagef("--partitions %d: the group in %s has %d, which stay: give as many or more, name another folder with --dir, or remove %s", f.partitions, f.dir, had, f.dir)
	}
	return nil
}

// run is rota up.
func (f *upFlags) run(ctx context.Context, out io.Writer) error {
	if err := checkListen(f.listen, f.open); err != nil {
		return err
	}
	if host, _, err := net.SplitHostPort(f.listen); err == nil && beyond(host) {
		return cli.Usagef("--listen %s: other hosts could connect, and rota up has no user and password to ask them for: listen on 127.0.0.1, or use rota serve with --token-file", f.listen)
	}
	how := url.Values{}
	if f.open {
		how.Set("open", "true")
	}
	warned := make(chan string, mostWarned)
	server, err := embedded.Serve(connect.FolderURL("embed:"+f.dir), listenURL(nil, f.listen, how), rotanats.Log(slog.New(warnInto(warned))))
	if err != nil {
		return connect.Words(err)
	}
	defer server.Close()
	if f.length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.length)
		defer cancel()
	}
	source := fmt.Sprintf("stream=%s&subject=demo.*&partitions=%d", demoStream, f.partitions)
	if err := connect.WriteNote(f.dir, connect.Note{Group: demoGroup, Source: source}); err != nil {
		return err
	}
	p, err := f.producer(ctx, source)
	if err != nil {
		return err
	}
	defer p.Close()
	file, err := newEventFile(f.dir)
	if err != nil {
		return err
	}
	defer file.Close()
	args := []string{"--dir", f.dir, "--handle", f.handle, "--events", "-", "--tally", "1s", "--tether", "--rejoin"}
	if server.Fresh() {
		args = append(args, "--new-group")
	}
	if connect.SharedFolder.Load() {
		args = append(args, "--shared-folder")
	}
	l, err := f.listenForScale()
	if err != nil {
		return err
	}
	if l != nil {
		defer l.Close()
	}
	sup, err := newSupervisor(append(args, f.scaleArgs()...)...)
	if err != nil {
		return err
	}
	v := newLive(out, f, whereServed(f.dir, server), sup, file)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-server.Done(): // its folder was taken away
			cancel()
		case <-ctx.Done():
		}
	}()
	err = f.live(ctx, sup, p, v, warned, l)
	if gone := server.Err(); gone != nil {
		return errors.Join(err, connect.Words(gone))
	}
	return err
}

// beyond tells whether a host to listen on is certainly not this machine alone.
func beyond(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && !ip.IsLoopback()
}

// mostWarned is how many warnings of the server may wait to be shown. The server does not
// repeat itself, and does not wait for a screen.
const mostWarned = 64

// warnInto is where the server's warnings go, so that they do not run over the picture.
func warnInto(warned chan<- string) slog.Handler {
	return cli.Warnings(func(_ time.Time, text string) {
		select {
		case warned <- text:
		default:
		}
	})
}

// producer makes the stream and a Producer that fills it. Old messages go by themselves,
// so that the folder does not grow for ever.
func (f *upFlags) producer(ctx context.Context, source string) (*Producer, error) {
	p, err := NewProducer(ctx, "embed:"+f.dir+"?"+source, "")
	if err != nil {
		return nil, err
	}
	_, err = p.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: demoStream, Subjects: []string{"demo.*"},
		Storage: jetstream.FileStorage, MaxAge: 10 * time.Minute, MaxBytes: 256 << 20})
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("make the stream: %w", err)
	}
	return p, nil
}

// live starts the members and shows them until ctx ends; then all leave.
func (f *upFlags) live(ctx context.Context, sup *supervisor, p *Producer, v *live, warned <-chan string, l net.Listener) error {
	for i := range f.members {
		if _, err := sup.start(fmt.Sprintf("c%d", i+1)); err != nil {
			return errors.Join(err, v.end(sup, nil))
		}
	}
	scaled := f.serveScale(ctx, l, sup)
	troubles := make(chan error)
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go f.publish(work, p, troubles)
	looks := make(chan *rota.Status, 1)
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	defer unwatch()
	go look(watching, "folder:"+f.dir, looks)
	v.begin()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case h := <-sup.events:
			v.take(h)
		case st := <-looks:
			v.see(st)
		case text := <-warned:
			v.tell(time.Now(), "the server: "+text)
		case err := <-troubles:
			v.tell(time.Now(), "messages could not be published for a moment: "+err.Error())
		case <-tick.C:
			v.draw()
		case err := <-scaled:
			if err != nil && ctx.Err() == nil {
				v.tell(time.Now(), "members can no longer ask for others: "+err.Error())
			}
			scaled = nil
		case <-ctx.Done():
			stop()
			if scaled != nil {
				<-scaled // no member is started from here on
			}
			return v.end(sup, looks)
		}
	}
}

// publish keeps the stream under load, whatever happens to it meanwhile.
func (f *upFlags) publish(ctx context.Context, p *Producer, troubles chan<- error) {
	for f.rate > 0 && ctx.Err() == nil {
		p.sent = 0 // the rate counts from now
		if err := p.steady(ctx, f.rate, 0, 64); err != nil {
			select {
			case troubles <- err:
			case <-ctx.Done():
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// look reads the group again and again: members that others started are seen
// this way alone.
func look(ctx context.Context, url string, to chan<- *rota.Status) {
	store, err := connect.OpenStore(url)
	if err != nil {
		return
	}
	defer store.Close()
	for ctx.Err() == nil {
		if st, err := rota.Inspect(ctx, store, demoGroup); err == nil {
			select {
			case to <- &st:
			case <-ctx.Done():
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// showTime is how long a show lasts; zero until somebody ends it.
type showTime struct{ v *time.Duration }

func (s showTime) String() string {
	if s.v == nil || *s.v == 0 {
		return ""
	}
	return s.v.String()
}

func (s showTime) Type() string { return "duration" }

func (s showTime) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("want a time such as 30s or 2m; 0 means until Ctrl-C")
	}
	*s.v = d
	return nil
}
