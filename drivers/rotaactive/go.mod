module github.com/rota-dev/rota/drivers/rotaactive

go 1.26.0

require (
	github.com/Azure/go-amqp v1.7.0
	github.com/go-stomp/stomp/v3 v3.1.5
	github.com/rota-dev/rota v0.0.0
)
