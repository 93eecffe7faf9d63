package rotaaws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"
)

// InstanceLabel is the label by which a Scaler knows the instance of a member.
const InstanceLabel = "instance"

var instanceRE = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// InstanceID returns the id of the EC2 instance that this process runs on, for the label
// InstanceLabel. It asks the metadata service by IMDSv2, with a token, and never by IMDSv1.
func InstanceID(ctx context.Context) (string, error) {
	id, err := metadata(ctx, "instance-id")
	if err == nil && !instanceRE.MatchString(id) {
		err = fmt.Errorf("the metadata service says %.40q, which is none: is something else at its address?", id)
	}
	if err != nil {
		return "", fmt.Errorf("rotaaws: the EC2 instance id: %w", err)
	}
	return id, nil
}

const (
	// metadataTime is how long one request to the metadata service may take: it is on
	// this machine, and answers in milliseconds or not at all.
	metadataTime = time.Second
	// metadataTries is how often a request is sent that gets no answer.
	metadataTries = 3
	tokenSeconds  = "60"
)

// metadata asks the metadata service of the instance. The SDK's client could do so, and
// does not let its errors be told apart.
func metadata(ctx context.Context, path string) (string, error) {
	if strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true") {
		return "", errors.New("AWS_EC2_METADATA_DISABLED forbids to ask: unset it, or write the label yourself")
	}
	at := "http://169.254.169.254"
	if strings.EqualFold(os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"), "ipv6") {
		at = "http://[fd00:ec2::254]"
	}
	at = strings.TrimSuffix(cmp.Or(os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), at), "/")
	token, err := askMetadata(ctx, http.MethodPut, at+"/latest/api/token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", tokenSeconds)
	if err != nil {
		return "", err
	}
	return askMetadata(ctx, http.MethodGet, at+"/latest/meta-data/"+path, "X-Aws-Ec2-Metadata-Token", token)
}

// metadataClient uses no proxy and follows nobody: a token is for this machine alone.
var metadataClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       metadataTime,
}

func askMetadata(ctx context.Context, method, url, header, value string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", errors.New("AWS_EC2_METADATA_SERVICE_ENDPOINT is not a URL: unset it, or write http://HOST")
	}
	r.Header.Set(header, value)
	var answer *http.Response
	for range metadataTries {
		if answer, err = metadataClient.Do(r); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return "", errors.New("the metadata service does not answer: this is no EC2 instance, or a container whose instance has a hop limit of 1 (raise http-put-response-hop-limit to 2)")
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusForbidden:
		return "", errors.New("the metadata service is off for this instance (HTTP 403): modify-instance-metadata-options --http-endpoint enabled")
	default:
		return "", fmt.Errorf("the metadata service answers HTTP %d: is something else at its address? IMDSv2 is needed", answer.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(answer.Body, mostMetadata))
	if err != nil {
		return "", errors.New("the answer of the metadata service broke off")
	}
	return strings.TrimSpace(string(b)), nil
}

// mostMetadata is more than any token or id has.
const mostMetadata = 1 << 10
