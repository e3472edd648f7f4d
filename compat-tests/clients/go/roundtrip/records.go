// Package roundtrip is what every Go client must be able to do with a broker, told once.
//
// Record i of a run goes to partition i mod 12 with the time base+i ms, so its offset must be
// i div 12, and key and value can be computed: nothing needs to be remembered to check a record.
package roundtrip

import (
	"fmt"
	"strings"
	"sync"
)

// Partitions of the topic of a run.
const Partitions = 12

// Record is a record as it is sent and as it is read.
type Record struct {
	Partition int
	Offset    int64 // set by the broker
	Millis    int64
	Key       string
	Value     string
}

// Plan says what record i of a run looks like.
type Plan struct{ BaseMillis int64 }

// Record returns record i with the offset that it must get.
func (plan Plan) Record(i int) Record {
	return Record{
		Partition: i % Partitions,
		Offset:    int64(i / Partitions),
		Millis:    plan.BaseMillis + int64(i),
		Key:       fmt.Sprintf("key-%d", i),
		Value:     fmt.Sprintf("%d-%s", i, strings.Repeat("tide", 20+i%10)),
	}
}

// Range returns the records from first to last-1.
func (plan Plan) Range(first, last int) []Record {
	records := make([]Record, 0, last-first)
	for i := first; i < last; i++ {
		records = append(records, plan.Record(i))
	}
	return records
}

// Index returns i of the record that must be at a place.
func Index(partition int, offset int64) int { return int(offset)*Partitions + partition }

// Seen collects what the members of a group read; safe for use by all of them.
type Seen struct {
	plan   Plan
	mutex  sync.Mutex
	counts map[int]int
	fault  error
}

// NewSeen returns an empty collection.
func NewSeen(plan Plan) *Seen { return &Seen{plan: plan, counts: map[int]int{}} }

// Add checks one record and counts it.
func (seen *Seen) Add(record Record) {
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	i := Index(record.Partition, record.Offset)
	if want := seen.plan.Record(i); record != want && seen.fault == nil {
		seen.fault = fmt.Errorf("got %+v, want %+v", record, want)
	}
	seen.counts[i]++
}

// Fault returns the first wrong record as an error.
func (seen *Seen) Fault() error {
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	return seen.fault
}

// Missing returns how many of the records first..last-1 nobody has read yet.
func (seen *Seen) Missing(first, last int) int {
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	missing := 0
	for i := first; i < last; i++ {
		if seen.counts[i] == 0 {
			missing++
		}
	}
	return missing
}

// Total returns how many records were read, repeats included.
func (seen *Seen) Total() int {
	seen.mutex.Lock()
	defer seen.mutex.Unlock()
	total := 0
	for _, count := range seen.counts {
		total += count
	}
	return total
}

// Order checks one member: offsets of a partition rise by one until the partition is taken away.
type Order struct{ next map[int]int64 }

// NewOrder returns a check for a member that has read nothing.
func NewOrder() *Order { return &Order{next: map[int]int64{}} }

// Check returns an error if the record does not follow the last one of its partition.
func (order *Order) Check(record Record) error {
	next, held := order.next[record.Partition]
	order.next[record.Partition] = record.Offset + 1
	if held && record.Offset != next {
		return fmt.Errorf("partition %d: offset %d after %d", record.Partition, record.Offset, next-1)
	}
	return nil
}

// Forget drops what is known of partitions that were taken away.
func (order *Order) Forget(partitions []int) {
	for _, partition := range partitions {
		delete(order.next, partition)
	}
}
