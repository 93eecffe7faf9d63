//go:build !linux

package demo

import (
	"os"
	"syscall"
)

func ChildAttr() *syscall.SysProcAttr { return nil }

func stopped(int) bool { return false }

func wake(*os.Process) {}
