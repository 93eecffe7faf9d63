module github.com/rota-dev/rota

go 1.26.0
