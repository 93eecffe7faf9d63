package main

import (
	"fmt"
	"time"

	"github.com/rota-dev/rota/internal/sim"
)

func main() {
	s := sim.NewStage(sim.Options{Partitions: 6})
	s.Say(func(at time.Duration, l string) { fmt.Println(at, l) })
	s.Join("c1")
	s.Join("c2")
	s.Join("c3")
	s.Advance(5 * time.Second)
	fmt.Println(s.Owners())
	s.Join("c4")
	s.Advance(5 * time.Second)
	fmt.Println("KILL", s.Kill("c1"))
	s.Advance(10 * time.Second)
	fmt.Println("CUT", s.Cut("c3"), s.Owners())
	s.Advance(8 * time.Second)
	fmt.Println("HEAL", s.Heal("c3"), s.Owners())
	s.Advance(8 * time.Second)
	fmt.Println("CUT2", s.Cut("c4"), s.Owners())
	for _, n := range []string{"c2", "c3", "c4"} {
		fmt.Println(s.Leave(n))
	}
	s.Advance(1 * time.Second)
	fmt.Println(s.Owners())
	s.Advance(10 * time.Second)
	fmt.Println(s.Owners())
	s.Advance(40 * time.Second)
	fmt.Println(s.Owners())
	fmt.Println(s.Seen())
}
