package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	numberOfAccounts = 40
	abortedOfHundred = 15
	mostOrders       = 10
	giveUp           = 2 * time.Minute
)

// booking is a record of a transaction; text follows TXN:INDEX:COUNT in its value.
type booking struct {
	topic     string
	partition int
	text      string
}

// writer is one transactional id.
type writer struct {
	*run
	name   string
	random *rand.Rand
	count  int
}

func (r *run) writer(name string) *writer {
	full := r.family + "-" + name
	return &writer{run: r, name: full, random: r.source(full)}
}

func (w *writer) transactional(timeout time.Duration, more ...kgo.Opt) []kgo.Opt {
	return w.options(w.name+" zone="+w.zone, append(more,
		kgo.TransactionalID(w.name),
		kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(30*time.Second),
	)...)
}

// pace does steps at the rate of the run, until the end.
func (w *writer) pace(end context.Context, step func()) {
	due := time.Now()
	for {
		step()
		due = due.Add(time.Second / time.Duration(w.rate))
		if late := time.Now().Add(-time.Second); due.Before(late) {
			due = late
		}
		if !waits(end, time.Until(due)) {
			return
		}
	}
}

func (w *writer) think() {
	if draw := w.random.Float64(); draw < 0.02 {
		time.Sleep(100*time.Millisecond + time.Duration(w.random.Intn(1400))*time.Millisecond)
	} else if draw < 0.2 {
		time.Sleep(time.Duration(w.random.Intn(50)) * time.Millisecond)
	}
}

func (w *writer) commits() bool { return w.random.Intn(100) >= abortedOfHundred }

// transaction is one of a writer; places are known once its records are delivered.
type transaction struct {
	name   string
	places []string
}

// send produces the records of a new transaction, with pauses.
func (w *writer) send(client *kgo.Client, records []booking) *transaction {
	w.count++
	made := &transaction{
		fmt.Sprintf("%s-%d.%d", w.name, w.life, w.count), make([]string, len(records)),
	}
	say("B", "%s", made.name)
	for index, each := range records {
		value := fmt.Sprintf("%s:%d:%d", made.name, index, len(records))
		if each.text != "" {
			value += ":" + each.text
		}
		record := kgo.StringRecord(value)
		record.Topic, record.Partition = each.topic, int32(each.partition)
		client.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
			mutex.Lock()
			defer mutex.Unlock()
			if err == nil {
				made.places[index] = fmt.Sprintf("%s:%d", place(sent.Topic, sent.Partition), sent.Offset)
			}
		})
		w.think()
	}
	return made
}

func (t *transaction) where() string {
	mutex.Lock()
	defer mutex.Unlock()
	return strings.Join(t.places, ",")
}

func (t *transaction) asks(how kgo.TransactionEndTry) {
	say("T", "%s %s %d", t.name, word(how), len(t.places))
}

func (t *transaction) ended(how kgo.TransactionEndTry) {
	where := t.where() // say takes the mutex, too
	say("K", "%s %s %s", t.name, word(how), where)
}

func word(how kgo.TransactionEndTry) string {
	if how == kgo.TryCommit {
		return "commit"
	}
	return "abort"
}

// append appends unique values to one to four lists.
func (r *run) append(name string, timeout time.Duration) {
	w := r.writer(name)
	var client *kgo.Client
	w.pace(r.flushed, func() {
		if client == nil {
			made, err := kgo.NewClient(w.transactional(timeout)...)
			must(err)
			client = made
		}
		if !w.appendOnce(client) {
			client.Close()
			client = nil
		}
	})
	say("D", "%s", w.name)
}

// appendOnce returns whether the client may go on.
func (w *writer) appendOnce(client *kgo.Client) bool {
	if err := client.BeginTransaction(); err != nil {
		say("E", "%s begin %s", w.name, short(err))
		return false
	}
	records := []booking{}
	for _, each := range w.random.Perm(w.lists)[:1+w.random.Intn(4)] {
		for times := w.random.Intn(2); times >= 0; times-- {
			records = append(records, booking{"lists", each, ""})
		}
	}
	made := w.send(client, records)
	if !w.commits() {
		return w.abort(client, made)
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveUp)
	defer cancel()
	made.asks(kgo.TryCommit)
	if err := client.Flush(ctx); err != nil {
		say("U", "%s %s", made.name, short(err))
		return false
	}
	err := client.EndTransaction(ctx, kgo.TryCommit)
	switch {
	case err == nil:
		made.ended(kgo.TryCommit)
		return true
	case errors.Is(err, kerr.OperationNotAttempted), errors.Is(err, kerr.TransactionAbortable):
		say("E", "%s commit %s", w.name, short(err))
		return w.abort(client, made)
	default:
		say("U", "%s %s", made.name, short(err))
		return false
	}
}

func (w *writer) abort(client *kgo.Client, made *transaction) bool {
	ctx, cancel := context.WithTimeout(context.Background(), giveUp)
	defer cancel()
	made.asks(kgo.TryAbort)
	err := client.AbortBufferedRecords(ctx)
	if err == nil {
		err = client.EndTransaction(ctx, kgo.TryAbort)
	}
	if err != nil {
		say("U", "%s %s", made.name, short(err))
		return false
	}
	made.ended(kgo.TryAbort)
	return true
}

// move takes orders, and moves what they say between accounts.
func (r *run) move(name string, timeout time.Duration) {
	w := r.writer(name)
	var session *kgo.GroupTransactSession
	w.pace(r.stopped, func() {
		if session == nil {
			made, err := kgo.NewGroupTransactSession(w.transactional(timeout,
				kgo.ConsumerGroup("movers-"+r.family),
				kgo.ConsumeTopics("orders-"+r.family),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
				kgo.FetchIsolationLevel(kgo.ReadCommitted()),
				kgo.RequireStableFetchOffsets(),
				kgo.SessionTimeout(10*time.Second),
				kgo.Balancers(kgo.RangeBalancer()),
			)...)
			must(err)
			session = made
			// A transaction of an earlier life makes the group's offsets unstable.
			if _, _, err := session.Client().ProducerID(context.Background()); err != nil {
				say("E", "%s begin %s", w.name, short(err))
			}
		}
		if !w.moveOnce(session) {
			session.Close()
			session = nil
		}
	})
	if session != nil {
		session.Close()
	}
	say("D", "%s", w.name)
}

// moveOnce returns whether the session may go on.
func (w *writer) moveOnce(session *kgo.GroupTransactSession) bool {
	polling, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	fetches := session.PollRecords(polling, mostOrders)
	cancel()
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			say("E", "%s poll %s", w.name, short(failed.Err))
		}
	}
	records := []booking{}
	fetches.EachRecord(func(each *kgo.Record) {
		var debtor, creditor, amount int
		_, err := fmt.Sscan(string(each.Value), &debtor, &creditor, &amount)
		must(err)
		order := fmt.Sprintf("%d.%d", each.Partition, each.Offset)
		records = append(records,
			booking{"accounts", debtor % w.accounts, fmt.Sprintf("%s:%d", order, -amount)},
			booking{"accounts", creditor % w.accounts, fmt.Sprintf("%s:%d", order, amount)})
	})
	if len(records) == 0 {
		return true
	}
	if err := session.Begin(); err != nil {
		say("E", "%s begin %s", w.name, short(err))
		return false
	}
	made := w.send(session.Client(), records)
	how := kgo.TransactionEndTry(w.commits())
	ctx, cancel := context.WithTimeout(context.Background(), giveUp)
	defer cancel()
	made.asks(how)
	committed, err := session.End(ctx, how)
	switch {
	case err != nil:
		say("U", "%s %s", made.name, short(err))
	case committed == bool(how):
		made.ended(how)
	default: // it may have tried to commit before it aborted
		say("U", "%s not_committed", made.name)
	}
	return err == nil
}

// order orders transfers, at a steady rate.
func (r *run) order() {
	random := r.source("orders")
	client, err := kgo.NewClient(r.options(r.family+"-orders",
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	must(err)
	for count := 0; waits(r.flushed, time.Second/time.Duration(2*r.rate)); count++ {
		debtor := random.Intn(numberOfAccounts)
		creditor := (debtor + 1 + random.Intn(numberOfAccounts-1)) % numberOfAccounts
		record := kgo.StringRecord(fmt.Sprintf("%d %d %d", debtor, creditor, 1+random.Intn(100)))
		record.Topic, record.Partition = "orders-"+r.family, int32(count%r.orders)
		client.Produce(context.Background(), record, nil)
	}
	must(client.Flush(context.Background()))
	say("D", "orders")
}
