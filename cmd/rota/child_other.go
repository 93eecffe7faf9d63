//go:build !linux

package main

import (
	"os"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return nil }

func stopped(int) bool { return false }

func wake(*os.Process) {}
