module github.com/rota-dev/rota/drivers/rotazk

go 1.26.0

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/rota-dev/rota v0.0.0
)
