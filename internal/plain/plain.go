// Package plain makes texts that others wrote safe to print.
package plain

import (
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text makes a text that others wrote safe for a terminal and for one line: what
// is not all printable is quoted, with its control and format characters escaped.
// A partition, a label or the answer of a server could otherwise move the cursor,
// set the clipboard, or forge lines of a table.
func Text(s string) string {
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

// Texts is Text for each of a list.
func Texts(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = Text(s)
	}
	return out
}

// Lines is Text for each line of a text.
func Lines(s string) string {
	return strings.Join(Texts(strings.Split(s, "\n")), "\n")
}

// Copy copies a value with every text in it made plain: whatever a group's
// records gain, a table of them cannot forget it.
func Copy[T any](v T) T {
	out := reflect.New(reflect.TypeFor[T]()).Elem()
	copyPlain(out, reflect.ValueOf(v))
	return out.Interface().(T)
}

func copyPlain(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.String:
		to.SetString(Text(from.String()))
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyPlain(to.Elem(), from.Elem())
		}
	case reflect.Struct:
		to.Set(from) // what is not exported, as in time.Time, is no text of others
		for i := range from.NumField() {
			if from.Type().Field(i).IsExported() {
				copyPlain(to.Field(i), from.Field(i))
			}
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				copyPlain(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for _, k := range from.MapKeys() {
				key, value := reflect.New(k.Type()).Elem(), reflect.New(from.Type().Elem()).Elem()
				copyPlain(key, k)
				copyPlain(value, from.MapIndex(k))
				to.SetMapIndex(key, value)
			}
		}
	default:
		to.Set(from)
	}
}
