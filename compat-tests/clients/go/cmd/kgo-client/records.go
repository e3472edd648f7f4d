package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"tidegate.example/compat/roundtrip"
)

func millis(at int64) time.Time { return time.UnixMilli(at) }

func ours(record *kgo.Record) roundtrip.Record {
	return roundtrip.Record{
		Partition: int(record.Partition),
		Offset:    record.Offset,
		Millis:    record.Timestamp.UnixMilli(),
		Key:       string(record.Key),
		Value:     string(record.Value),
	}
}
