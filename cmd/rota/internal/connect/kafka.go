package connect

import "github.com/rota-dev/rota/drivers/rotakafka"

// kafkaSource opens kafka://… and kafka+ssl://….
func kafkaSource(raw string, _ bool) (queueSource, error) {
	if err := rotakafka.Check(raw); err != nil {
		return queueSource{}, Words(err)
	}
	return queueSource{Source: rotakafka.Source(raw)}, nil
}
