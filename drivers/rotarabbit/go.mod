module github.com/rota-dev/rota/drivers/rotarabbit

go 1.26.0

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/rota-dev/rota v0.0.0
)
