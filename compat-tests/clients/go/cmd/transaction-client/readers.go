package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	reach          = 3000
	wholeOfHundred = 10
	idleEnd        = 3 * time.Second
)

var levels = map[string]kgo.IsolationLevel{"c": kgo.ReadCommitted(), "u": kgo.ReadUncommitted()}

type offsets map[string]map[int32]int64

func (r *run) starts() offsets {
	found := offsets{"lists": {}, "accounts": {}}
	for each := 0; each < r.lists; each++ {
		found["lists"][int32(each)] = 0
	}
	for each := 0; each < r.accounts; each++ {
		found["accounts"][int32(each)] = 0
	}
	return found
}

func (o offsets) words() string {
	words := []string{}
	for topic, partitions := range o {
		for partition, offset := range partitions {
			words = append(words, fmt.Sprintf("%s:%d", place(topic, partition), offset))
		}
	}
	sort.Strings(words)
	return strings.Join(words, ",")
}

// reader prints what a client gets.
type reader struct {
	*run
	name, level string
	positions   offsets
}

func (r *run) reader(kind, level string) *reader {
	return &reader{run: r, name: r.family + "-" + kind + "-" + level, level: level}
}

// begin begins a pass.
func (r *reader) begin(at offsets) *kgo.Client {
	say("P", "%s %s %s", r.name, r.level, at.words())
	r.positions = at
	assigned := map[string]map[int32]kgo.Offset{}
	for topic, partitions := range at {
		assigned[topic] = map[int32]kgo.Offset{}
		for partition, offset := range partitions {
			assigned[topic][partition] = kgo.NewOffset().At(offset)
		}
	}
	client, err := kgo.NewClient(r.options(r.name,
		kgo.ConsumePartitions(assigned),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(levels[r.level]),
		kgo.KeepControlRecords(), // so that positions get to the end
	)...)
	must(err)
	return client
}

// take prints what came; it returns whether anything did.
func (r *reader) take(client *kgo.Client) bool {
	polling, cancel := context.WithTimeout(r.ended, 200*time.Millisecond)
	defer cancel()
	fetches := client.PollFetches(polling)
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) && !errors.Is(failed.Err, context.Canceled) {
			say("E", "%s poll %s", r.name, short(failed.Err))
		}
	}
	came := false
	fetches.EachPartition(func(part kgo.FetchTopicPartition) {
		words := []string{}
		for _, record := range part.Records {
			came = true
			r.positions[part.Topic][part.Partition] = record.Offset + 1
			if !record.Attrs.IsControl() {
				words = append(words, fmt.Sprintf("%d=%s", record.Offset, record.Value))
			}
		}
		if len(words) > 0 {
			say("R", "%s %s %s", r.name, place(part.Topic, part.Partition), strings.Join(words, " "))
		}
	})
	return came
}

func (r *reader) isBehind(ends offsets) bool {
	for topic, partitions := range ends {
		for partition, end := range partitions {
			if r.positions[topic][partition] < end {
				return true
			}
		}
	}
	return false
}

// follow reads everything as it comes.
func (r *run) follow(level string) {
	at := r.starts()
	for r.life > 0 && r.ended.Err() == nil {
		if ends := r.ends(level); ends != nil {
			at = ends
			break
		}
	}
	reader := r.reader("tail", level)
	client := reader.begin(at)
	for r.ended.Err() == nil {
		reader.take(client)
	}
}

// readAgain reads from anywhere to the end, again and again, at one isolation level or the other.
func (r *run) readAgain() {
	random := r.source("again")
	for waits(r.ended, 4*time.Second+time.Duration(random.Intn(8000))*time.Millisecond) {
		level := []string{"c", "u", "c"}[random.Intn(3)]
		ends := r.ends(level)
		if ends == nil {
			continue
		}
		isWhole := random.Intn(100) < wholeOfHundred
		at := r.starts()
		for topic, partitions := range ends {
			for partition, end := range partitions {
				if back := int64(random.Intn(reach + 1)); !isWhole && end > back {
					at[topic][partition] = end - back
				}
			}
		}
		reader := r.reader("again", level)
		client := reader.begin(at)
		last := time.Now()
		for r.ended.Err() == nil && reader.isBehind(ends) && time.Since(last) < idleEnd {
			if reader.take(client) {
				last = time.Now()
			}
		}
		client.Close()
	}
}

// ends returns the end of each partition, as an isolation level sees it; nil: not now.
func (r *run) ends(level string) offsets {
	client, err := kgo.NewClient(r.options(r.family + "-asker")...)
	must(err)
	defer client.Close()
	return r.endsOf(kadm.NewClient(client), level)
}

func (r *run) endsOf(admin *kadm.Client, level string) offsets {
	ctx, cancel := context.WithTimeout(r.ended, 10*time.Second)
	defer cancel()
	list := admin.ListEndOffsets
	if level == "c" {
		list = admin.ListCommittedOffsets
	}
	listed, err := list(ctx, "lists", "accounts")
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		say("E", "%s-asker offsets %s", r.family, short(err))
		return nil
	}
	found := offsets{"lists": {}, "accounts": {}}
	listed.Each(func(each kadm.ListedOffset) { found[each.Topic][each.Partition] = each.Offset })
	return found
}

// askForStable asks for the last stable offsets, again and again.
func (r *run) askForStable() {
	client, err := kgo.NewClient(r.options(r.family + "-asker")...)
	must(err)
	admin := kadm.NewClient(client)
	for waits(r.ended, time.Second) {
		sent := time.Now().UnixMilli()
		if ends := r.endsOf(admin, "c"); ends != nil {
			say("L", "%d %s", sent, ends.words())
		}
	}
}
