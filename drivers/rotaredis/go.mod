module github.com/rota-dev/rota/drivers/rotaredis

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.23.0
	github.com/rota-dev/rota v0.0.0
)
