package rotaaws

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

// An Option is a setting that a URL cannot hold.
type Option func(*access)

// Using sets region, credentials, endpoint and HTTP client, in place of what the SDK finds
// by itself. Parameters of a URL win over it.
func Using(c aws.Config) Option { return func(a *access) { a.given = &c } }

// Failed is called when a publication of metrics has failed, at once and then with growing
// pauses for as long as the reason is the same, and with nil when one has succeeded again.
func Failed(f func(error)) Option { return func(a *access) { a.failed = f } }

// access finds out how AWS is reached, when it is first needed.
type access struct {
	settings
	given  *aws.Config
	failed func(error)
	found  atomic.Pointer[aws.Config]
}

func (a *access) apply(opts []Option) {
	for _, o := range opts {
		o(a)
	}
}

// config returns the configuration of clients, once the credentials in it are valid.
func (a *access) config(ctx context.Context) (aws.Config, error) {
	if c := a.found.Load(); c != nil {
		return *c, checkCredentials(ctx, *c)
	}
	c, err := a.load(ctx)
	if err != nil {
		return c, err
	}
	if err := checkCredentials(ctx, c); err != nil {
		return c, err
	}
	a.found.Store(&c)
	return c, nil
}

// forget makes the next call look for credentials again: files of credentials are
// replaced while members run, and the SDK reads them once.
func (a *access) forget() { a.found.Store(nil) }

func (a *access) load(ctx context.Context) (aws.Config, error) {
	var c aws.Config
	if a.given != nil {
		c = a.given.Copy()
	} else {
		var err error
		if c, err = config.LoadDefaultConfig(ctx); err != nil {
			return c, fmt.Errorf("the AWS configuration cannot be read: %w", err)
		}
	}
	// One call is one request: the caller has pauses of its own, and a repeated
	// TerminateInstanceInAutoScalingGroup might lower the capacity twice.
	c.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	if a.region != "" {
		c.Region = a.region
	}
	if c.Region == "" {
		region, err := metadata(ctx, "placement/region")
		if err == nil {
			err = plainRegion(&c.Region, region)
		}
		if err != nil {
			return c, errors.New("no AWS region: set AWS_REGION, or write ?region=REGION where there is a URL")
		}
	}
	return c, nil
}

// checkCredentials returns an error if there are none. The SDK caches them, and renews those
// that end by themselves.
func checkCredentials(ctx context.Context, c aws.Config) error {
	if c.Credentials == nil {
		return errors.New(noCredentials)
	}
	if _, err := c.Credentials.Retrieve(ctx); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("no AWS credentials yet: %w", ctx.Err())
		}
		return fmt.Errorf("%s (%.300s)", noCredentials, err.Error())
	}
	return nil
}

const noCredentials = "no AWS credentials: give the instance a role, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
