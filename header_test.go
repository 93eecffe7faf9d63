package rota_test

import (
	"testing"

	"github.com/rota-dev/rota"
)

func TestHeaderIsTheFirstOfItsKey(t *testing.T) {
	m := rota.Message{Headers: []rota.Header{{"a", []byte("1")}, {"A", []byte("2")}, {"a", []byte("3")}, {"empty", []byte{}}}}
	if got := string(m.Header("a")) + string(m.Header("A")); got != "12" {
		t.Errorf("a and A are %q", got)
	}
	if m.Header("b") != nil || m.Header("empty") == nil {
		t.Error("none and an empty one look the same")
	}
}
