// Command fault-client is the load of franz-go: an idempotent producer and a member of a group.
//
//	fault-client BOOTSTRAP TOPIC PARTITIONS RATE ZONE
//
// It prints what it is told, as faults/ledger.py describes.  `flush` on standard input ends the
// producer; the end of standard input ends the rest.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	name        = "franz-go"
	tick        = 20 * time.Millisecond
	commitEvery = 500 * time.Millisecond
	flushFor    = 120 * time.Second
	// Clients come back to a gateway before it is hurt again.
	metadataMaxAge = 5 * time.Second
)

var (
	padding = strings.Repeat(".", 80)
	mutex   sync.Mutex // guards standard output
)

func say(kind, format string, words ...any) {
	mutex.Lock()
	defer mutex.Unlock()
	fmt.Printf("%s %d %s\n", kind, time.Now().UnixMilli(), fmt.Sprintf(format, words...))
}

// short names an error by one word or two, so that equal ones can be counted.
func short(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

func must(client *kgo.Client, err error) *kgo.Client {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return client
}

func produce(client *kgo.Client, topic string, partitions, rate int, stop <-chan struct{}) {
	began, number := time.Now(), 0
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			ctx, cancel := context.WithTimeout(context.Background(), flushFor)
			defer cancel()
			if client.Flush(ctx) == nil {
				say("D", "")
			}
			return
		case <-ticker.C:
			due := int(time.Since(began).Seconds() * float64(rate))
			for ; number < due; number++ {
				send(client, topic, number, number*7919%partitions)
			}
		}
	}
}

func send(client *kgo.Client, topic string, number, partition int) {
	record := kgo.StringRecord(fmt.Sprintf("%s %d %d %s", name, number, partition, padding))
	record.Topic, record.Partition = topic, int32(partition)
	client.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
		if err != nil {
			say("F", "%d %d %s", partition, number, short(err))
			return
		}
		say("A", "%d %d %d", sent.Partition, sent.Offset, number)
	})
}

type member struct {
	topic      string
	read       map[int32]int64
	commitAt   time.Time
	committing chan struct{} // holds a token while a commit is under way
}

func (m *member) assigned(_ context.Context, _ *kgo.Client, given map[string][]int32) {
	words := []string{}
	for _, partition := range given[m.topic] {
		words = append(words, strconv.Itoa(int(partition)))
	}
	m.read = map[int32]int64{} // polling is blocked meanwhile
	say("J", "%s", strings.Join(words, ","))
}

func (m *member) run(ctx context.Context, client *kgo.Client) {
	for ctx.Err() == nil {
		polling, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		fetches := client.PollFetches(polling)
		cancel()
		m.take(fetches)
		if len(m.read) > 0 && time.Now().After(m.commitAt) {
			m.commit(client)
		}
		client.AllowRebalance()
	}
}

func (m *member) take(fetches kgo.Fetches) {
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) && !errors.Is(failed.Err, context.Canceled) {
			say("E", "poll %s", short(failed.Err))
		}
	}
	fetches.EachPartition(func(part kgo.FetchTopicPartition) {
		words := []string{}
		for _, record := range part.Records {
			fields := strings.Fields(string(record.Value))
			words = append(words, fmt.Sprintf("%d:%s:%s", record.Offset, fields[0], fields[1]))
			m.read[part.Partition] = record.Offset + 1
		}
		if len(words) > 0 {
			say("C", "%d %s", part.Partition, strings.Join(words, " "))
		}
	})
}

func (m *member) commit(client *kgo.Client) {
	select {
	case m.committing <- struct{}{}:
	default:
		return
	}
	offsets, words := map[int32]kgo.EpochOffset{}, []string{}
	for partition, offset := range m.read {
		offsets[partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
		words = append(words, fmt.Sprintf("%d:%d", partition, offset))
	}
	m.read, m.commitAt = map[int32]int64{}, time.Now().Add(commitEvery)
	say("T", "%s", strings.Join(words, ","))
	client.CommitOffsets(context.Background(), map[string]map[int32]kgo.EpochOffset{m.topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, reply *kmsg.OffsetCommitResponse, err error) {
			defer func() { <-m.committing }()
			if err == nil {
				err = firstError(reply)
			}
			if err != nil {
				say("E", "commit %s", short(err))
				return
			}
			say("K", "%s", strings.Join(words, ","))
		})
}

func firstError(reply *kmsg.OffsetCommitResponse) error {
	for _, topic := range reply.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func main() {
	seeds, topic, zone := strings.Split(os.Args[1], ","), os.Args[2], os.Args[5]
	partitions, _ := strconv.Atoi(os.Args[3])
	rate, _ := strconv.Atoi(os.Args[4])
	producer := must(kgo.NewClient(
		kgo.SeedBrokers(seeds...),
		kgo.ClientID(name+"-producer"),
		kgo.MetadataMaxAge(metadataMaxAge),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	))
	m := &member{topic: topic, read: map[int32]int64{}, committing: make(chan struct{}, 1)}
	consumer := must(kgo.NewClient(
		kgo.SeedBrokers(seeds...),
		kgo.ClientID(name+"-consumer"),
		kgo.MetadataMaxAge(metadataMaxAge),
		kgo.Rack(zone),
		kgo.ConsumerGroup(name+"-group"),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// Short, so that some members are expelled.
		kgo.SessionTimeout(10*time.Second),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.assigned),
	))
	stop := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	consumed := make(chan struct{})
	go produce(producer, topic, partitions, rate, stop)
	go func() { m.run(ctx, consumer); close(consumed) }()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		close(stop)
	}
	cancel()
	<-consumed
	consumer.CloseAllowingRebalance()
}
