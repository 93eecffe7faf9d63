// Package demo is a group on one machine: rota up, rota serve and rota produce, with
// members as processes and a picture of them on the terminal.
package demo
