// Command kafka-go-client runs the round trip with segmentio/kafka-go.
package main

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"tidegate.example/compat/roundtrip"
)

var codecs = map[string]kafka.Compression{
	"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

type driver struct {
	address net.Addr
	client  *kafka.Client
}

func main() {
	roundtrip.Main("kafka-go-client", func(address string) (roundtrip.Driver, error) {
		addr := kafka.TCP(address)
		return &driver{addr, &kafka.Client{Addr: addr, Timeout: 20 * time.Second}}, nil
	})
}

func (d *driver) Codecs() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

func (d *driver) CreateTopic(ctx context.Context, topic string, partitions int) error {
	reply, err := d.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{
			{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1},
		},
	})
	if err != nil {
		return err
	}
	return reply.Errors[topic]
}

func (d *driver) PartitionCount(ctx context.Context, topic string) (int, error) {
	reply, err := d.client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return 0, err
	}
	return len(reply.Topics[0].Partitions), nil
}

// byKey sends a record to the partition that its number stands for.
func byKey(message kafka.Message, partitions ...int) int {
	number, _ := strconv.Atoi(strings.TrimPrefix(string(message.Key), "key-"))
	return partitions[number%len(partitions)]
}

func (d *driver) Produce(
	ctx context.Context, topic, codec string, records []roundtrip.Record,
) error {
	writer := &kafka.Writer{
		Addr:         d.address,
		Topic:        topic,
		Balancer:     kafka.BalancerFunc(byKey),
		BatchSize:    1000,
		BatchTimeout: 10 * time.Millisecond,
		RequiredAcks: kafka.RequireAll,
		Compression:  codecs[codec],
	}
	defer writer.Close()
	messages := make([]kafka.Message, len(records))
	for n, record := range records {
		messages[n] = kafka.Message{
			Key: []byte(record.Key), Value: []byte(record.Value), Time: time.UnixMilli(record.Millis),
		}
	}
	return writer.WriteMessages(ctx, messages...)
}

type member struct {
	reader  *kafka.Reader
	stop    context.CancelFunc // ends the reading
	stopped chan struct{}
	fault   error // readable once stopped is closed
}

func (d *driver) Join(
	ctx context.Context, group, topic string, sink func(roundtrip.Record),
) (roundtrip.Member, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:           []string{d.address.String()},
		GroupID:           group,
		Topic:             topic,
		StartOffset:       kafka.FirstOffset,
		HeartbeatInterval: 500 * time.Millisecond,
		MaxWait:           200 * time.Millisecond,
		MaxBytes:          1 << 20,
		JoinGroupBackoff:  500 * time.Millisecond,
	})
	reading, stop := context.WithCancel(ctx)
	m := &member{reader: reader, stop: stop, stopped: make(chan struct{})}
	go func() {
		defer close(m.stopped)
		m.fault = m.read(ctx, reading, sink)
	}()
	return m, nil
}

// read commits after 1000 records or when no more come for a while.
func (m *member) read(ctx, reading context.Context, sink func(roundtrip.Record)) error {
	waiting := []kafka.Message{}
	for reading.Err() == nil {
		message, err := m.fetch(reading)
		idle := errors.Is(err, context.DeadlineExceeded) || reading.Err() != nil
		if err != nil && !idle {
			return err
		}
		if err == nil {
			sink(ours(message))
			waiting = append(waiting, message)
		}
		if len(waiting) == 1000 || idle && len(waiting) > 0 {
			if err := m.commit(ctx, waiting); err != nil {
				return err
			}
			waiting = waiting[:0]
		}
	}
	return nil
}

func (m *member) fetch(ctx context.Context) (kafka.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	return m.reader.FetchMessage(ctx)
}

// commit forgives what a rebalance does to a commit: the records are read again by their new owner.
func (m *member) commit(ctx context.Context, messages []kafka.Message) error {
	err := m.reader.CommitMessages(ctx, messages...)
	for _, expected := range []error{
		kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.RebalanceInProgress, io.ErrClosedPipe,
	} {
		if errors.Is(err, expected) {
			return nil
		}
	}
	return err
}

func (m *member) Leave() error {
	m.stop()
	<-m.stopped
	return errors.Join(m.fault, m.reader.Close())
}

func (d *driver) Assigned(ctx context.Context, group string) ([]int, error) {
	reply, err := d.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{
		GroupIDs: []string{group},
	})
	if err != nil || reply.Groups[0].GroupState != "Stable" {
		return nil, err
	}
	held := []int{}
	for _, each := range reply.Groups[0].Members {
		count := 0
		for _, topic := range each.MemberAssignments.Topics {
			count += len(topic.Partitions)
		}
		held = append(held, count)
	}
	return held, nil
}

func (d *driver) Committed(ctx context.Context, group, topic string) (map[int]int64, error) {
	partitions := []int{}
	for partition := range roundtrip.Partitions {
		partitions = append(partitions, partition)
	}
	reply, err := d.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{topic: partitions},
	})
	if err != nil {
		return nil, err
	}
	found := map[int]int64{}
	for _, each := range reply.Topics[topic] {
		found[each.Partition] = each.CommittedOffset
	}
	return found, reply.Error
}

func (d *driver) Read(
	ctx context.Context, topic string, partition int, offset int64, count int,
) ([]roundtrip.Record, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:   []string{d.address.String()},
		Topic:     topic,
		Partition: partition,
		MaxWait:   100 * time.Millisecond,
		MaxBytes:  1 << 20,
	})
	defer reader.Close()
	if err := reader.SetOffset(offset); err != nil {
		return nil, err
	}
	records := make([]roundtrip.Record, 0, count)
	for len(records) < count {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return records, err
		}
		records = append(records, ours(message))
	}
	return records, nil
}

func (d *driver) OffsetAt(
	ctx context.Context, topic string, partition int, at int64,
) (int64, error) {
	reply, err := d.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{
			topic: {kafka.TimeOffsetOf(partition, time.UnixMilli(at))},
		},
	})
	if err != nil {
		return 0, err
	}
	found := reply.Topics[topic][0]
	for offset := range found.Offsets {
		return offset, found.Error
	}
	return -1, found.Error
}

func ours(message kafka.Message) roundtrip.Record {
	return roundtrip.Record{
		Partition: message.Partition,
		Offset:    message.Offset,
		Millis:    message.Time.UnixMilli(),
		Key:       string(message.Key),
		Value:     string(message.Value),
	}
}
