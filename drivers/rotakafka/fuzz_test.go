package rotakafka_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rota-dev/rota"
	"github.com/rota-dev/rota/drivers/rotakafka"
)

// FuzzLetter: a letter is decoded as it was written, whatever is in it, and a record that
// somebody has changed is none.
func FuzzLetter(f *testing.F) {
	f.Add("t-0", []byte("key"), []byte("value"), "because", "h", []byte{0}, uint8(1), "")
	f.Add("a-b-7", []byte(nil), []byte(nil), "", "rota-group", []byte("x"), uint8(200), "former")
	f.Add("", []byte{}, []byte{}, "\xff", "rota-id", []byte("id"), uint8(0), "")
	f.Fuzz(func(t *testing.T, partition string, key, value []byte, reason, header string, text []byte, attempt uint8, former string) {
		src := rotakafka.Source("kafka://a?pattern=.*")
		at := time.UnixMilli(1_700_000_000_000).UTC()
		l := rota.Letter{Group: "g", Reason: reason, Time: at, Former: former, Message: rota.Message{ID: "id", Partition: partition, Key: key, Value: value,
			Headers: []rota.Header{{Key: header, Value: text}}, Time: at, Attempt: int(attempt), Position: 5}}
		topic, _, err := rotakafka.ReadPartition(partition)
		r := rotakafka.LetterRecord(topic+".dead", &l)
		got, ok := rotakafka.ReadLetter(src, r)
		if !ok {
			if err == nil && attempt > 0 {
				t.Fatalf("%+v is not decoded", l)
			}
			return
		}
		l.ID = string(r.Key)
		if strings.HasPrefix(header, "rota-") && header != "rota-id" {
			l.Message.Headers = nil
		}
		if strings.ToValidUTF8(reason, "") == reason && len(reason) < 2000 && !reflect.DeepEqual(got, l) {
			t.Errorf("%+v is decoded as %+v", l, got)
		}
		r.Key = append(r.Key, 'x')
		if _, ok := rotakafka.ReadLetter(src, r); ok {
			t.Errorf("a record with another key is a letter")
		}
		r = rotakafka.LetterRecord(topic+".dead", &l)
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "rota-offset", Value: []byte("6")})
		if _, ok := rotakafka.ReadLetter(src, r); ok {
			t.Errorf("a record with another offset is a letter")
		}
	})
}

// FuzzFetch: nothing that a broker sends makes the decoder go back, or end.
func FuzzFetch(f *testing.F) {
	f.Add(int64(0), []byte{})
	f.Add(int64(5), make([]byte, 61))
	f.Add(int64(5), append(append(make([]byte, 8), 0, 0, 0, 49, 0, 0, 0, 0, 2), make([]byte, 44)...))
	f.Fuzz(func(t *testing.T, at int64, batches []byte) {
		records, next, err := rotakafka.Decode(rotakafka.Source("kafka://a?topic=t"), at, batches)
		if err == nil && next < at {
			t.Errorf("the fetch at %d goes on at %d", at, next)
		}
		for _, r := range records {
			if r.Offset < at {
				t.Errorf("the fetch at %d has the record at %d", at, r.Offset)
			}
		}
	})
}
