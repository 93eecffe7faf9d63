package connect

import (
	"github.com/rota-dev/rota/drivers/rotaactive"
)

// activeSource opens stomp://… and amqp10://…, and those over TLS.
func activeSource(raw string, _ bool) (queueSource, error) {
	if err := rotaactive.Check(raw); err != nil {
		return queueSource{}, Words(err)
	}
	return queueSource{Source: rotaactive.Source(raw)}, nil
}
