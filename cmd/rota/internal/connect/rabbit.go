package connect

import "github.com/rota-dev/rota/drivers/rotarabbit"

// rabbitSource opens amqp://… and amqps://….
func rabbitSource(raw string, _ bool) (queueSource, error) {
	if err := rotarabbit.Check(raw); err != nil {
		return queueSource{}, Words(err)
	}
	return queueSource{Source: rotarabbit.Source(raw)}, nil
}
