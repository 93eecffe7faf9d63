package rotakafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rota-dev/rota"
)

// Watch fetches a partition from an offset on, as an owner would, and returns when the
// first record has come.
func Watch(ctx context.Context, src rota.Source, partition string, at int64) (first <-chan time.Time, end func(), err error) {
	s := src.(*source)
	name, number, err := readPartition(partition)
	if err != nil {
		return nil, nil, err
	}
	t, err := s.locate(ctx, name, number, time.Time{})
	if err != nil {
		return nil, nil, err
	}
	c := s.fetcher.add(name, t.id, number, t.leaders[number], at, chunk{})
	came := make(chan time.Time, 1)
	go func() {
		select {
		case <-c.ready:
			came <- time.Now()
		case <-ctx.Done():
		}
	}()
	return came, func() { s.fetcher.remove(c) }, nil
}

// Parked tells whether a fetch of all partitions waits at a broker, and nothing else does.
func Parked(src rota.Source) bool {
	f := src.(*source).fetcher
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.feeds {
		for _, c := range d.cursors {
			if !d.waiting || d.strays > 0 || d.merging || !c.flying {
				return false
			}
		}
	}
	return len(f.feeds) > 0
}

// Ended is the offset that a source has read ahead and that the former owner has noted as its last,
// or -1.
func Ended(src rota.Source, partition string) (at int64) {
	at = -1
	src.(*source).aheads.with(partition, func(a *ahead) {
		if a.at.note.last {
			at = a.at.at
		}
	})
	return at
}

// Peeked is how many messages of a partition a source has read ahead.
func Peeked(src rota.Source, partition string) (n int) {
	src.(*source).aheads.with(partition, func(a *ahead) { n = len(a.chunk.records) })
	return n
}

func (as *aheads) with(partition string, f func(a *ahead)) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if a := as.all[partition]; a != nil {
		f(a)
	}
}

var (
	ReadPartition = readPartition
	PartitionName = partitionName
	Versions      = versions
)

// NoteOf is the note of a commit.
func NoteOf(topic [16]byte, token rota.Token, last bool) string {
	return note{topic, token, last}.String()
}

// ReadNote decodes a note.
func ReadNote(text string) (again string, ok bool) {
	n, ok := readNote(text)
	return n.String(), ok
}

// LetterRecord is the record of a letter in a topic, and ReadLetter decodes it.
func LetterRecord(topic string, l *rota.Letter) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: []byte(letterID(l)), Value: l.Message.Value, Headers: letterHeaders(l)}
}

func ReadLetter(src rota.Source, r *kgo.Record) (rota.Letter, bool) {
	return src.(*source).readLetter(r)
}

// Decode decodes what a broker has sent of a partition that is fetched at an offset.
func Decode(src rota.Source, at int64, batches []byte) (records []*kgo.Record, next int64, err error) {
	s := src.(*source)
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = batches
	got := (&feed{f: s.fetcher}).decode(&cursor{topic: "t", at: at}, &p)
	return got.records, got.next, got.err
}
