package rotakafka

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-dev/rota"
)

// A note is what we write beside a committed offset: of which topic it is, since a topic
// of the same name may be made again and begin anew, under which token it was
// committed, and whether that owner has ended with it.
type note struct {
	topic [16]byte
	token rota.Token
	last  bool
}

const (
	noteWord = "rota1"
	lastWord = " last"
)

func (n note) String() string {
	text := fmt.Sprintf("%s topic=%x token=%d", noteWord, n.topic, n.token)
	if n.last {
		text += lastWord
	}
	return text
}

// readNote decodes a note, and returns false for metadata that somebody else has written.
func readNote(text string) (n note, ok bool) {
	rest, last := strings.CutSuffix(text, lastWord)
	words := strings.Split(rest, " ")
	if len(words) != 3 || words[0] != noteWord {
		return n, false
	}
	id, err := hex.DecodeString(strings.TrimPrefix(words[1], "topic="))
	token, err2 := strconv.ParseUint(strings.TrimPrefix(words[2], "token="), 10, 64)
	if err != nil || err2 != nil || len(id) != len(n.topic) {
		return n, false
	}
	n = note{[16]byte(id), rota.Token(token), last}
	return n, n.String() == text
}
