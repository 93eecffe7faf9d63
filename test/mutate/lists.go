package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// A list names mutants, each with a reason.
//
//	Node.leading: drop: n.ended #1
//		a node that has ended takes no step
type list map[string]string

// readList reads a file of identities, each followed by indented lines that say
// why. Lines that begin with # are comments.
func readList(file string) (list, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return list{}, nil
	}
	if err != nil {
		return nil, err
	}
	l, id := list{}, ""
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case line[0] == '\t' || line[0] == ' ':
			if id == "" {
				return nil, fmt.Errorf("%s:%d: a reason without a mutant", file, i+1)
			}
			l[id] = strings.TrimSpace(l[id] + " " + strings.TrimSpace(line))
		default:
			id = strings.TrimSpace(line)
			if _, twice := l[id]; twice {
				return nil, fmt.Errorf("%s:%d: %s is listed twice", file, i+1, id)
			}
			l[id] = ""
		}
	}
	for id, why := range l {
		if why == "" {
			return nil, fmt.Errorf("%s: %s: no reason is given", file, id)
		}
	}
	return l, nil
}
