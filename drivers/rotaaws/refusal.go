package rotaaws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// A refusal is a kind of answer by which AWS does not do what it was asked to.
type refusal struct {
	codes  string // separated by spaces
	says   string // in our words, with what to do
	silent bool   // the words of AWS are left out
}

var refusals = []refusal{
	{"Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException RequestLimitExceeded TooManyRequestsException SlowDown",
		"AWS throttles this account: fewer calls, or a higher quota", false},
	{"AccessDenied AccessDeniedException UnauthorizedOperation NotAuthorized OptInRequired",
		"the credentials lack the right to do it: docs/scalers/aws.md has the policy", false},
	{expired, "the credentials have expired: they are looked for again with the next call", true},
	{"InvalidClientTokenId UnrecognizedClientException AuthFailure MissingAuthenticationToken InvalidAccessKeyId",
		"AWS does not know these credentials: are they of another account, or deleted?", true},
	// The words of AWS repeat the request that should have been signed, with the session's
	// token in it.
	{"SignatureDoesNotMatch InvalidSignatureException IncompleteSignature RequestExpired RequestInTheFuture",
		"AWS refuses the signature: the secret key is wrong, or the clock of this machine is", true},
	{"ScalingActivityInProgress ScalingActivityInProgressFault", "another scaling activity of the group is in progress: it is tried again", false},
	{"ResourceContention ResourceContentionFault", "another update of the group is in progress: it is tried again", false},
	{"ServiceUnavailable ServiceUnavailableException InternalFailure InternalError InternalServiceError InternalServiceFault",
		"AWS has a failure of its own: it is tried again", false},
}

const (
	expired = "ExpiredToken ExpiredTokenException TokenRefreshRequired"
	invalid = "InvalidParameterValue InvalidParameterValueException InvalidParameterCombination InvalidParameterCombinationException MissingParameter MissingRequiredParameterException ValidationError ValidationException RequestEntityTooLarge"
)

// A refused call has our words for what AWS answered, and nothing else of the answer, which
// may contain secrets.
type refused struct {
	text    string
	code    string // of AWS
	expired bool   // the credentials have
	invalid bool   // it would be refused again
}

func (r refused) Error() string { return r.text }

// inWords says what an error of a call means. The error has a method RetryAfter if AWS
// said when to call again.
func inWords(call string, err error) error {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, end) {
			return fmt.Errorf("%s: no answer: %w", call, end)
		}
	}
	worded := refused{text: call + ": " + explain(err)}
	var api smithy.APIError
	if errors.As(err, &api) {
		worded.code = api.ErrorCode()
		worded.expired = refusal{codes: expired}.has(worded.code)
		worded.invalid = refusal{codes: invalid}.has(worded.code)
	}
	if after := retryAfter(err); after > 0 {
		return later{worded, after}
	}
	return worded
}

// unknownError is the SDK's word for a code, or a message, that is missing.
const unknownError = "UnknownError"

func explain(err error) string {
	var api smithy.APIError
	var answer *smithyhttp.ResponseError
	var sent *smithyhttp.RequestSendError
	switch {
	case errors.As(err, &sent):
		return fmt.Sprintf("AWS cannot be reached: %.300s", sent.Err.Error())
	case errors.As(err, &api) && api.ErrorCode() != unknownError:
		return explainCode(api.ErrorCode(), api.ErrorMessage())
	case errors.As(err, &answer):
		return fmt.Sprintf("the answer cannot be read (HTTP %d): is something else at the address of AWS?", answer.HTTPStatusCode())
	}
	return fmt.Sprintf("%.300s", err.Error())
}

func explainCode(code, words string) string {
	says, silent := "AWS refuses it", false
	for _, r := range refusals {
		if r.has(code) {
			says, silent = r.says, r.silent
		}
	}
	if silent || words == "" || words == unknownError || secretive(words) {
		return fmt.Sprintf("%s (%.80s)", says, code)
	}
	return fmt.Sprintf("%s (%.80s: %.300s)", says, code, words)
}

func (r refusal) has(code string) bool {
	return slices.Contains(strings.Fields(r.codes), code)
}

// secretive tells whether words of AWS may repeat a part of a signed request.
func secretive(words string) bool {
	words = strings.ToLower(words)
	for _, part := range []string{"security-token", "signature=", "credential="} {
		if strings.Contains(words, part) {
			return true
		}
	}
	return false
}

// retryAfter is how long AWS asks to wait before the next call.
func retryAfter(err error) time.Duration {
	var answer *smithyhttp.ResponseError
	if !errors.As(err, &answer) || answer.Response == nil {
		return 0
	}
	text := answer.Response.Header.Get("Retry-After")
	if s, err := strconv.Atoi(text); err == nil && s > 0 {
		return time.Duration(min(s, int(mostAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(at), 0), mostAfter)
	}
	return 0
}

// mostAfter is the longest pause that AWS can ask for: a wrong clock asks for years.
const mostAfter = 15 * time.Minute

// A later error says when to call again.
type later struct {
	error
	after time.Duration
}

func (l later) Unwrap() error             { return l.error }
func (l later) RetryAfter() time.Duration { return l.after }

// together makes one error of several, in one line. It asks for the longest of their
// pauses.
func together(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	var texts []string
	var after time.Duration
	for _, err := range errs {
		texts = append(texts, err.Error())
		if l, ok := errors.AsType[later](err); ok {
			after = max(after, l.after)
		}
	}
	all := joined{strings.Join(texts, "; "), errs}
	if after > 0 {
		return later{all, after}
	}
	return all
}

type joined struct {
	text string
	errs []error
}

func (j joined) Error() string   { return j.text }
func (j joined) Unwrap() []error { return j.errs }
