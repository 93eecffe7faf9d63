//go:build race

package rota_test

const raceEnabled = true
