package rotakafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota"
)

// A permanent error wraps rota.ErrPermanent and keeps its own words.
type permanent struct{ error }

func (p permanent) Unwrap() []error { return []error{p.error, rota.ErrPermanent} }

const rights = "docs/sources/kafka.md has the rights"

// answers are the errors of brokers in our words, with what to do.
var answers = []struct {
	err       error
	says      string
	permanent bool
}{
	{kerr.SaslAuthenticationFailed, "the broker refuses this user or password", true},
	{kerr.UnsupportedSaslMechanism, "the broker does not have this sasl= mechanism", true},
	{kerr.IllegalSaslState, "the broker does not let this user sign in by sasl=", true},
	{kerr.TopicAuthorizationFailed, "this user has no right to the topic: " + rights, false},
	{kerr.GroupAuthorizationFailed, "this user has no right to the Kafka group: " + rights, false},
	{kerr.TransactionalIDAuthorizationFailed, "this user has no right to the transactional id: " + rights + "; fence=none needs none", false},
	{kerr.ClusterAuthorizationFailed, "this user has no right to that in the cluster: " + rights, false},
	{kerr.UnknownMemberID, "the Kafka group has members of its own, so that Kafka refuses our commits: stop them, or give this group another name", false},
	{kerr.MessageTooLarge, "the topic permits no message of this size: raise its max.message.bytes", false},
	{kerr.NotEnoughReplicas, "the topic has too few replicas in sync to accept messages (min.insync.replicas)", false},
	{kerr.OffsetMetadataTooLarge, "the broker permits too little metadata of an offset: raise offset.metadata.max.bytes to 512 or more", false},
	{kerr.UnsupportedVersion, "the broker is too old for this: Kafka 2.5 or later is needed", false},
}

// inWords adds our words to an error, with its own in brackets.
func inWords(err error) error {
	var (
		early   *kgo.ErrFirstReadEOF
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		host    x509.HostnameError
		record  tls.RecordHeaderError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &early):
		return fmt.Errorf("the broker closed the connection at once: if it wants TLS, write kafka+ssl://; if it wants a sign-in, USER:PASSWORD@HOST and sasl= (%w)", err)
	case errors.As(err, &record):
		return fmt.Errorf("the broker does not speak TLS on this port: write kafka:// instead of kafka+ssl:// (%w)", err)
	case errors.As(err, &unknown):
		return fmt.Errorf("the broker's certificate is of an authority that is not trusted: name its file by ca= (%w)", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("the broker's certificate has expired, or is not valid yet (%w)", err)
	case errors.As(err, &host):
		return fmt.Errorf("the broker's certificate is for another host (%w)", err)
	}
	for _, a := range answers {
		if !errors.Is(err, a.err) {
			continue
		}
		worded := fmt.Errorf("%s (%w)", a.says, err)
		if a.permanent {
			return permanent{worded}
		}
		return worded
	}
	return err
}

// refused tells whether a broker has refused a request for a reason that does not go away
// within seconds. Everything else may be an outage.
func refused(err error) bool {
	var k *kerr.Error
	return errors.As(err, &k) && !k.Retriable && !fenced(err) && !moved(err) && !errors.Is(err, kerr.OffsetOutOfRange)
}

// fenced tells whether the transactional id has to be initialized again before a commit: it
// is not ours any more, or the broker has forgotten it, as it does after a week.
func fenced(err error) bool {
	return shutOut(err) || errors.Is(err, kerr.InvalidProducerIDMapping) || errors.Is(err, kerr.InvalidTxnState)
}

// shutOut tells whether somebody else has initialized the transactional id since.
func shutOut(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}

// moved tells whether a partition is to be looked for anew: it has another leader, or its
// topic was deleted.
func moved(err error) bool {
	for _, e := range []error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.ReplicaNotAvailable, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch,
		kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID, kerr.KafkaStorageError, kerr.BrokerNotAvailable} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
