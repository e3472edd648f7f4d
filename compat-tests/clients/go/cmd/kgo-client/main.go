// Command kgo-client runs the round trip with franz-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidegate.example/compat/roundtrip"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

type driver struct {
	address string
	admin   *kadm.Client
}

func main() {
	roundtrip.Main("kgo-client", func(address string) (roundtrip.Driver, error) {
		admin, err := kadm.NewOptClient(kgo.SeedBrokers(address))
		return &driver{address, admin}, err
	})
}

func (d *driver) Codecs() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

func (d *driver) CreateTopic(ctx context.Context, topic string, partitions int) error {
	_, err := d.admin.CreateTopic(ctx, int32(partitions), 1, nil, topic)
	return err
}

func (d *driver) PartitionCount(ctx context.Context, topic string) (int, error) {
	topics, err := d.admin.ListTopics(ctx, topic)
	return len(topics[topic].Partitions), err
}

func (d *driver) Produce(
	ctx context.Context, topic, codec string, records []roundtrip.Record,
) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(d.address),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[codec]),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	sent := make([]*kgo.Record, len(records))
	for n, record := range records {
		sent[n] = kgo.KeyStringRecord(record.Key, record.Value)
		sent[n].Partition = int32(record.Partition)
		sent[n].Timestamp = millis(record.Millis)
	}
	if err := client.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return err
	}
	for n, record := range records {
		if sent[n].Offset != record.Offset {
			return fmt.Errorf("%s was acknowledged at offset %d, not %d",
				record.Key, sent[n].Offset, record.Offset)
		}
	}
	return nil
}

type member struct {
	client  *kgo.Client
	order   *roundtrip.Order
	mutex   sync.Mutex         // guards order
	stop    context.CancelFunc // ends the polling
	stopped chan struct{}
	fault   error // readable once stopped is closed
}

func (d *driver) Join(
	ctx context.Context, group, topic string, sink func(roundtrip.Record),
) (roundtrip.Member, error) {
	m := &member{order: roundtrip.NewOrder(), stopped: make(chan struct{})}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(d.address),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(500e6),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsRevoked(m.taken),
		kgo.OnPartitionsLost(m.taken),
	)
	if err != nil {
		return nil, err
	}
	m.client = client
	polling, stop := context.WithCancel(ctx)
	m.stop = stop
	go m.read(ctx, polling, sink)
	return m, nil
}

func (m *member) taken(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, partitions := range topics {
		for _, partition := range partitions {
			m.order.Forget([]int{int(partition)})
		}
	}
}

func (m *member) read(ctx, polling context.Context, sink func(roundtrip.Record)) {
	defer close(m.stopped)
	for polling.Err() == nil {
		fetches := m.client.PollFetches(polling)
		if err := m.take(ctx, fetches, sink); err != nil && polling.Err() == nil {
			m.fault = errors.Join(m.fault, err)
		}
		m.client.AllowRebalance()
	}
}

func (m *member) take(ctx context.Context, fetches kgo.Fetches, sink func(roundtrip.Record)) error {
	if err := fetches.Err(); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, raw := range fetches.Records() {
		record := ours(raw)
		if err := m.order.Check(record); err != nil {
			return err
		}
		sink(record)
	}
	return m.client.CommitRecords(ctx, fetches.Records()...)
}

func (m *member) Leave() error {
	m.stop()
	<-m.stopped
	m.client.CloseAllowingRebalance()
	return m.fault
}

func (d *driver) Assigned(ctx context.Context, group string) ([]int, error) {
	groups, err := d.admin.DescribeGroups(ctx, group)
	if kerr.IsRetriable(errors.Join(err, groups[group].Err)) {
		return nil, nil // Kafka makes its offsets topic when the first group comes
	}
	if err != nil || groups[group].State != "Stable" {
		return nil, err
	}
	held := []int{}
	for _, each := range groups[group].Members {
		count := 0
		if assigned, ok := each.Assigned.AsConsumer(); ok {
			for _, topic := range assigned.Topics {
				count += len(topic.Partitions)
			}
		}
		held = append(held, count)
	}
	return held, nil
}

func (d *driver) Committed(ctx context.Context, group, topic string) (map[int]int64, error) {
	offsets, err := d.admin.FetchOffsets(ctx, group)
	found := map[int]int64{}
	offsets.Each(func(offset kadm.OffsetResponse) {
		if offset.Topic == topic {
			found[int(offset.Partition)] = offset.At
		}
	})
	return found, err
}

func (d *driver) Read(
	ctx context.Context, topic string, partition int, offset int64, count int,
) ([]roundtrip.Record, error) {
	start := map[string]map[int32]kgo.Offset{topic: {int32(partition): kgo.NewOffset().At(offset)}}
	client, err := kgo.NewClient(kgo.SeedBrokers(d.address), kgo.ConsumePartitions(start))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []roundtrip.Record{}
	for len(records) < count {
		fetches := client.PollRecords(ctx, count-len(records))
		if err := fetches.Err(); err != nil {
			return records, err
		}
		for _, raw := range fetches.Records() {
			records = append(records, ours(raw))
		}
	}
	return records, nil
}

func (d *driver) OffsetAt(
	ctx context.Context, topic string, partition int, at int64,
) (int64, error) {
	offsets, err := d.admin.ListOffsetsAfterMilli(ctx, at, topic)
	if err != nil {
		return 0, err
	}
	found, _ := offsets.Lookup(topic, int32(partition))
	return found.Offset, found.Err
}
