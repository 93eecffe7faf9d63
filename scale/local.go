package scale

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/rota-dev/rota"
)

// Local returns a Scaler that asks a supervisor on this host, which has called Serve, over
// a unix socket. The URL is local:PATH. It does not connect.
func Local(rawURL string) (rota.Scaler, error) {
	path, ok := strings.CutPrefix(rawURL, "local:")
	if !ok || path == "" {
		return nil, errors.New("scale: a URL for a supervisor on this host is local:PATH, with the path of its socket")
	}
	if err := checkSocket(path); err != nil {
		return nil, fmt.Errorf("scale: %w", err)
	}
	return &local{printed(rawURL), path}, nil
}

// mostSocket is how long the path of a unix socket may be on every system.
const mostSocket = 103

func checkSocket(path string) error {
	switch {
	case strings.ContainsAny(path, "?\x00"):
		return fmt.Errorf("the socket's path %.120q has a ? or a zero byte in it: choose another one", path)
	case len(path) > mostSocket:
		return fmt.Errorf("the socket's path %.120q has %d bytes, and %d are the most: choose a shorter one, or a relative one", path, len(path), mostSocket)
	}
	return nil
}

type local struct {
	printed
	path string
}

// An order is a request to the supervisor, in one line of JSON.
type order struct {
	Want   int      `json:"want"`
	Remove []victim `json:"remove"`
}

// A reply is the supervisor's answer, in one line of JSON.
type reply struct {
	Done  bool   `json:"done"`
	Error string `json:"error,omitempty"`
}

const (
	mostOrder = 1 << 20 // bytes of an order
	mostReply = 64 << 10
)

// Scale sends one order. When ctx ends the connection is closed, and an order that has not
// begun is dropped.
func (l *local) Scale(ctx context.Context, want int, remove []rota.MemberInfo) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := l.ask(ctx, order{want, victims(remove)})
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the supervisor at %s: %w", l.path, err)
	}
	return nil
}

func (l *local) ask(ctx context.Context, o order) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", l.path)
	if err != nil {
		return fmt.Errorf("it does not run, or not there: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("it has not read the request: %w", err)
	}
	text, err := readLine(conn, mostReply)
	if err != nil {
		return fmt.Errorf("it has not answered: %w", err)
	}
	return readReply(text)
}

func readReply(text []byte) error {
	var r reply
	if err := decode(text, &r); err != nil {
		return err
	}
	if r.Error != "" {
		return errors.New(strings.ToValidUTF8(r.Error, "?"))
	}
	if !r.Done {
		return fmt.Errorf("its answer says neither done nor error: %s", quoted(string(text)))
	}
	return nil
}

// readLine reads one line of at most most bytes, with its end.
func readLine(r io.Reader, most int64) ([]byte, error) {
	text, err := bufio.NewReader(io.LimitReader(r, most)).ReadBytes('\n')
	if errors.Is(err, io.EOF) && int64(len(text)) == most {
		err = fmt.Errorf("a line longer than %d bytes", most)
	}
	return text, err
}
