package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/trial"
)

// onEC2 makes this process believe that it runs on an instance.
func onEC2(t *testing.T, id string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			fmt.Fprint(w, "a-token")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "a-token":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			fmt.Fprint(w, id)
		}
	}))
	t.Cleanup(s.Close)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", s.URL)
}

// The label of the machine joins those that were given, and contradicts none of them.
func TestLabelFromEC2(t *testing.T) {
	onEC2(t, "i-0123456789abcdef0")
	for _, c := range []struct {
		given map[string]string
		want  string
	}{
		{nil, "map[instance:i-0123456789abcdef0]"},
		{map[string]string{"zone": "a"}, "map[instance:i-0123456789abcdef0 zone:a]"},
		{map[string]string{"instance": "i-0123456789abcdef0"}, "map[instance:i-0123456789abcdef0]"},
		{map[string]string{"instance": "mine"}, "--label instance=mine and --label-from ec2, which says i-0123456789abcdef0: drop one of them"},
	} {
		f := &memberFlags{labelFrom: "ec2", labels: c.given}
		err := f.findLabel(t.Context())
		got := fmt.Sprint(f.config(nil, nil, &handler{}).Labels)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("with %v: %s, want %s", c.given, got, c.want)
		}
	}
}

func TestLabelFromEC2SaysThatThisIsNone(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
	var stderr strings.Builder
	code := agentRuns(t.Context(), append(ownerArgs, "--label-from", "ec2"), io.Discard, &stderr)
	if code != cli.ExitUnreachable || !strings.Contains(stderr.String(), "--label-from ec2: the EC2 instance id: the metadata service does not answer: this is no EC2 instance") {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
}

var ownerArgs = []string{"run", "--group", "g", "--store", "mem:", "--source", "none:?partitions=2", "--own", "exec:sleep 1000", "--new-group", "--name", "c1"}

// A member with --cloudwatch publishes when it ends at the latest. If it is not allowed
// to, it says so, and works and leaves as ever.
func TestCloudWatchByTheCommand(t *testing.T) {
	for _, c := range []struct {
		status       int
		answer, says string
	}{
		{200, "\xa0", "has left"}, // an empty map of CBOR
		{403, "\xa1\x66__type\x6cAccessDenied", "cloudwatch: PutMetricData: the credentials lack the right to do it: docs/scalers/aws.md has the policy (AccessDenied)"},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			var mu sync.Mutex
			var bodies []string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				mu.Lock()
				bodies = append(bodies, r.URL.Path+" "+string(b))
				mu.Unlock()
				w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
				w.Header().Set("Content-Type", "application/cbor")
				w.WriteHeader(c.status)
				io.WriteString(w, c.answer)
			}))
			defer s.Close()
			for name, value := range map[string]string{"AWS_ENDPOINT_URL_CLOUDWATCH": s.URL, "AWS_REGION": "eu-test-1", "AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "hunter2",
				"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true"} {
				t.Setenv(name, value)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var stderr trial.Buffer
			ended := make(chan int, 1)
			go func() {
				ended <- agentRuns(ctx, append(ownerArgs, "--cloudwatch", "Orders/rota"), io.Discard, &stderr)
			}()
			trial.Until(t, "the start", func() bool { return strings.Contains(stderr.String(), "p1") })
			cancel()
			select {
			case code := <-ended:
				if code != 0 {
					t.Errorf("exit %d", code)
				}
			case <-time.After(time.Minute):
				t.Fatal("it does not end")
			}
			trial.In(t, stderr.String(), c.says)
			if strings.Contains(stderr.String(), "hunter2") {
				t.Errorf("a secret: %s", stderr.String())
			}
			mu.Lock()
			defer mu.Unlock()
			if len(bodies) == 0 || !strings.Contains(bodies[0], "/operation/PutMetricData ") || !strings.Contains(bodies[0], "Orders/rota") || !strings.Contains(bodies[0], "PartitionsOwned") {
				t.Errorf("it published %q", bodies)
			}
		})
	}
}
