package main

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// plain makes a text that others wrote safe for a terminal and for one line: what
// is not all printable is quoted, with its control and format characters escaped.
// A partition, a label or the answer of a server could otherwise move the cursor,
// set the clipboard, or forge lines of a table.
func plain(s string) string {
	if !utf8.ValidString(s) {
		return strconv.QuoteToASCII(s)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return strconv.QuoteToGraphic(s)
		}
	}
	return s
}

// plains is plain for each of a list.
func plains(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = plain(s)
	}
	return out
}
