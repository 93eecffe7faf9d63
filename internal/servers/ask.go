package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
)

// ask opens a connection, sends a question and lets check read the answer.
func ask(ctx context.Context, addr, question string, check func(*bufio.Reader) error) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		conn.SetDeadline(end)
	}
	if _, err := io.WriteString(conn, question); err != nil {
		return err
	}
	return check(bufio.NewReader(conn))
}

// wantLine is a check for an answer that begins with one of these lines.
func wantLine(want ...string) func(*bufio.Reader) error {
	return func(r *bufio.Reader) error {
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		if !slices.Contains(want, line) {
			return fmt.Errorf("it answers %q", line)
		}
		return nil
	}
}

// get asks a page for a 200.
func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Close = true // an idle connection would meet the server's next life
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return fmt.Errorf("%s answers %s: %s", url, resp.Status, text)
	}
	return nil
}
