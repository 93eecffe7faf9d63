package rotaaws

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const metadataToken = "a-token"

// A metadataServer is the metadata service of an instance, by IMDSv2.
type metadataServer struct {
	id    string
	token http.HandlerFunc // in place of its own
}

func (s *metadataServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/latest/api/token" && r.Method == http.MethodPut && r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") != "":
		if s.token != nil {
			s.token(w, r)
			return
		}
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "300")
		fmt.Fprint(w, metadataToken)
	case r.Header.Get("X-Aws-Ec2-Metadata-Token") != metadataToken:
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/latest/meta-data/instance-id":
		fmt.Fprint(w, s.id)
	case r.URL.Path == "/latest/meta-data/placement/region":
		fmt.Fprint(w, "eu-test-9")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// serveMetadata makes s the metadata service of this process.
func serveMetadata(t *testing.T, s *metadataServer) {
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.URL)
}

func TestInstanceIDComesWithAToken(t *testing.T) {
	serveMetadata(t, &metadataServer{id: "i-0123456789abcdef0"})
	if id, err := InstanceID(t.Context()); id != "i-0123456789abcdef0" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
}

// Where there is no instance id, the error says why.
func TestInstanceIDSaysWhatIsWrong(t *testing.T) {
	frozen := make(chan struct{})
	defer close(frozen)
	for _, c := range []struct {
		name string
		set  func(t *testing.T)
		says string
	}{
		{"not on EC2", func(t *testing.T) { t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1") }, "this is no EC2 instance, or a container"},
		{"hop limit", func(t *testing.T) {
			serveMetadata(t, &metadataServer{id: "i-01234567", token: func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-frozen:
				case <-r.Context().Done():
				}
			}})
		}, "raise http-put-response-hop-limit to 2"},
		{"off", func(t *testing.T) {
			serveMetadata(t, &metadataServer{id: "i-01234567", token: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }})
		}, "is off for this instance (HTTP 403)"},
		{"IMDSv1 only", func(t *testing.T) {
			serveMetadata(t, &metadataServer{id: "i-01234567", token: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }})
		}, "answers HTTP 404: is something else at its address? IMDSv2 is needed"},
		{"something else", func(t *testing.T) { serveMetadata(t, &metadataServer{id: "<html>"}) }, `says "<html>", which is none`},
		{"elsewhere", func(t *testing.T) {
			serveMetadata(t, &metadataServer{token: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://127.0.0.1:1", http.StatusTemporaryRedirect)
			}})
		}, "answers HTTP 307"},
		{"no URL", func(t *testing.T) { t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://a b") }, "AWS_EC2_METADATA_SERVICE_ENDPOINT is not a URL"},
		{"disabled", func(t *testing.T) { t.Setenv("AWS_EC2_METADATA_DISABLED", "true") }, "AWS_EC2_METADATA_DISABLED forbids to ask"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
			c.set(t)
			id, err := InstanceID(t.Context())
			if id != "" || err == nil || !strings.HasPrefix(err.Error(), "rotaaws: the EC2 instance id: ") || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), metadataToken) {
				t.Errorf("%q, %v, want %q", id, err, c.says)
			}
		})
	}
}

// On an instance, nobody has to say which region it is in.
func TestRegionOfTheInstance(t *testing.T) {
	serveMetadata(t, &metadataServer{id: "i-01234567"})
	a := access{}
	c, err := a.load(t.Context())
	if err != nil || c.Region != "eu-test-9" {
		t.Errorf("%q, %v", c.Region, err)
	}
}
