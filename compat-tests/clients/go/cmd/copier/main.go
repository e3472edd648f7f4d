// Command copier copies records in transactions of franz-go, as a member of a group.
//
// The options and the lines are those of Kafka's TransactionalMessageCopier with --group-mode, but
// it runs until it is ended.  It ends by itself with 1 when the client cannot go on, such as after
// another process took its transactional id.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	pollFor      = 200 * time.Millisecond
	abortedShare = 1.0 / 3
)

type options struct {
	brokers, input, output, group, id string
	size                              int
	timeout                           time.Duration
	aborts                            bool
}

func parse() options {
	var told options
	timeoutMs := 0
	flag.StringVar(&told.brokers, "broker-list", "", "")
	flag.StringVar(&told.input, "input-topic", "", "")
	flag.StringVar(&told.output, "output-topic", "", "")
	flag.StringVar(&told.group, "consumer-group", "", "")
	flag.StringVar(&told.id, "transactional-id", "", "")
	flag.IntVar(&told.size, "transaction-size", 100, "")
	flag.IntVar(&timeoutMs, "transaction-timeout", 10_000, "in ms")
	flag.BoolVar(&told.aborts, "enable-random-aborts", false, "")
	flag.Int("input-partition", 0, "of no use in a group")
	flag.Bool("group-mode", true, "always")
	flag.Bool("use-group-metadata", true, "always")
	flag.Parse()
	told.timeout = time.Duration(timeoutMs) * time.Millisecond
	return told
}

func open(told options) (*kgo.GroupTransactSession, error) {
	return kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(told.brokers, ",")...),
		kgo.TransactionalID(told.id),
		kgo.TransactionTimeout(told.timeout),
		kgo.ConsumerGroup(told.group),
		kgo.ConsumeTopics(told.input),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(10*time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(4096), // several requests a transaction
	)
}

type copier struct {
	told      options
	session   *kgo.GroupTransactSession
	processed int
}

func (c *copier) run(ctx context.Context) error {
	for {
		c.say()
		polling, cancel := context.WithTimeout(ctx, pollFor)
		fetches := c.session.PollRecords(polling, c.told.size)
		cancel()
		for _, failed := range fetches.Errors() {
			if !errors.Is(failed.Err, context.DeadlineExceeded) {
				fmt.Fprintln(os.Stderr, "poll", failed.Err)
			}
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := c.copy(ctx, fetches); err != nil {
			return err
		}
	}
}

// copy puts the records of a poll into one transaction.  The session goes back to what is committed
// after an abort.
func (c *copier) copy(ctx context.Context, fetches kgo.Fetches) error {
	if err := c.session.Begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	promise := kgo.AbortingFirstErrPromise(c.session.Client())
	fetches.EachRecord(func(read *kgo.Record) {
		written := &kgo.Record{
			Topic: c.told.output, Partition: read.Partition, Key: read.Key, Value: read.Value,
		}
		c.session.Produce(ctx, written, promise.Promise())
	})
	wanted := kgo.TryCommit
	if err := promise.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "produce", err)
		wanted = kgo.TryAbort
	} else if c.told.aborts && rand.Float64() < abortedShare {
		wanted = kgo.TryAbort
	}
	committed, err := c.session.End(ctx, wanted)
	if err != nil {
		return fmt.Errorf("end: %w", err)
	}
	if committed {
		c.processed += fetches.NumRecords()
	}
	return nil
}

func (c *copier) say() {
	line, _ := json.Marshal(map[string]any{"stage": "ProcessLoop", "totalProcessed": c.processed})
	fmt.Println(string(line))
}

func main() {
	told := parse()
	session, err := open(told)
	if err == nil {
		err = (&copier{told: told, session: session}).run(context.Background())
	}
	fmt.Fprintln(os.Stderr, "ended:", err)
	os.Exit(1)
}
