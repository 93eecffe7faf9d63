package rotanats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// mendTime is the timeout for changing a bucket. The server does not answer a request
// without the right for it, so a member without that right waits this long before it
// can report it.
const mendTime = 5 * time.Second

// weak returns how a bucket lets one writer harm the others, "" if it does not. Buckets
// that an earlier version has created, or a person has changed, may be weak.
func weak(c *jetstream.StreamConfig) string {
	var why []string
	if c.AllowRollup {
		why = append(why, "one write with the header Nats-Rollup removes the records of all groups")
	}
	if !c.DenyPurge {
		why = append(why, "its records can be purged")
	}
	if c.MaxMsgSize <= 0 || c.MaxMsgSize > maxValue {
		why = append(why, fmt.Sprintf("it accepts values of more than %d bytes", maxValue))
	}
	return strings.Join(why, ", ")
}

// mend changes a weak bucket to the configuration that config has now, and adds a seal
// key if it has none. It edits the server's raw answer, so that fields which this
// version does not know stay as they are. Several members may do this at once: they all
// request the same change, except for the key, of which the last one counts. A weak
// bucket that cannot be changed is refused; one that only lacks the key causes a warning.
func (s *store) mend(ctx context.Context, c *jetstream.StreamConfig) error {
	why, unsealed := weak(c), sealKey(c) == nil
	if why == "" && !unsealed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, mendTime)
	defer cancel()
	var raw struct {
		answer
		Config map[string]json.RawMessage `json:"config"`
	}
	err := s.ask(ctx, "STREAM.INFO."+s.stream(), nil, &raw)
	if err == nil && raw.Config == nil {
		err = errors.New("the server does not return its configuration")
	}
	if err == nil {
		raw.Config["allow_rollup_hdrs"] = json.RawMessage("false")
		raw.Config["deny_purge"] = json.RawMessage("true")
		if c.MaxMsgSize <= 0 || c.MaxMsgSize > maxValue {
			raw.Config["max_msg_size"] = json.RawMessage(fmt.Sprint(maxValue))
		}
		if unsealed {
			meta := maps.Clone(c.Metadata)
			if meta == nil {
				meta = map[string]string{}
			}
			meta[metaSeal] = newSeal()
			raw.Config["metadata"], _ = json.Marshal(meta)
		}
		var done streamInfo
		if err = s.ask(ctx, "STREAM.UPDATE."+s.stream(), raw.Config, &done); err == nil {
			*c = done.Config
			if why = weak(c); why == "" {
				s.set.Log.Info("bucket changed: no roll-ups, no purges, a limit for values, a seal", "bucket", s.name)
				return nil
			}
			err = errors.New("the server has not changed it")
		}
	}
	if why == "" {
		s.warn(fmt.Sprintf("bucket %s has no seal, so each change of a record is read again before it is used. "+
			"Start rota once with the right to publish to $JS.API.STREAM.UPDATE.%s (%v)", s.name, s.stream(), err))
		return nil
	}
	return fmt.Errorf("rotanats: bucket %s is not safe: %s. To change it, run: nats stream edit %s --no-allow-rollup --deny-purge --max-msg-size=%d; "+
		"or start rota once with the right to publish to $JS.API.STREAM.UPDATE.%s (%w)", s.name, why, s.stream(), maxValue, s.stream(), err)
}
