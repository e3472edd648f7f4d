package roundtrip

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

// Driver is a client library under test.
type Driver interface {
	// Codecs the library has, by their Kafka names.
	Codecs() []string
	CreateTopic(ctx context.Context, topic string, partitions int) error
	// PartitionCount asks the broker for the topic's metadata.
	PartitionCount(ctx context.Context, topic string) (int, error)
	// Produce sends the records in order, each to its Partition, and waits for all acknowledgements.
	Produce(ctx context.Context, topic, codec string, records []Record) error
	// Join adds a member that reads from the earliest offset, hands each record to sink and
	// commits after each poll.
	Join(ctx context.Context, group, topic string, sink func(Record)) (Member, error)
	// Assigned returns how many partitions each member of a stable group holds, nil if not stable.
	Assigned(ctx context.Context, group string) ([]int, error)
	// Committed returns the group's offset of each partition.
	Committed(ctx context.Context, group, topic string) (map[int]int64, error)
	// Read returns count records of a partition, from an offset on, without a group.
	Read(ctx context.Context, topic string, partition int, offset int64, count int) ([]Record, error)
	// OffsetAt returns the first offset whose record is not older.
	OffsetAt(ctx context.Context, topic string, partition int, millis int64) (int64, error)
}

// Member is one reader of a group.
type Member interface {
	// Leave commits, leaves the group, and returns what went wrong since the member joined.
	Leave() error
}

const (
	patience = 60 * time.Second // of each wait for the group
	limit    = 9 * time.Minute  // of the whole run
	extra    = 10 * Partitions  // records sent after the group has gone
)

type run struct {
	driver  Driver
	topic   string
	group   string
	records int
	plan    Plan
	seen    *Seen
	members []Member
}

// Main runs the round trip as a program: ADDRESS RECORDS on its command line, one line per check.
func Main(name string, open func(address string) (Driver, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := program(ctx, name, open); err != nil {
		fmt.Println("FAILED", err)
		os.Exit(1)
	}
}

func program(ctx context.Context, name string, open func(string) (Driver, error)) error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: %s HOST:PORT RECORDS", name)
	}
	wanted, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	driver, err := open(os.Args[1])
	if err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	plan := Plan{BaseMillis: now - int64(wanted) - 60_000}
	records := wanted - wanted%(2*Partitions)
	topic := fmt.Sprintf("%s-%d", name, now)
	trip := &run{driver, topic, topic + "-group", records, plan, NewSeen(plan), nil}
	return trip.all(ctx)
}

func (trip *run) all(ctx context.Context) error {
	steps := []struct {
		name string
		step func(context.Context) error
	}{
		{"create a topic with 12 partitions", trip.create},
		{"three members share the partitions", trip.gather},
		{"produce the first half with every codec, the group reads it", trip.firstHalf},
		{"one member leaves and one joins while the second half is produced", trip.churn},
		{"the group's offsets stand at the end", trip.committed},
		{"a new member resumes where the group stopped", trip.resume},
		{"content, order and offsets of every partition", trip.readAll},
		{"seek by time", trip.seek},
	}
	for _, each := range steps {
		if err := each.step(ctx); err != nil {
			return fmt.Errorf("%s: %w", each.name, err)
		}
		fmt.Println("ok", each.name)
	}
	return nil
}

func (trip *run) create(ctx context.Context) error {
	if err := trip.driver.CreateTopic(ctx, trip.topic, Partitions); err != nil {
		return err
	}
	return until(ctx, func() (string, error) {
		count, err := trip.driver.PartitionCount(ctx, trip.topic)
		return note(count != Partitions, "the topic has %d partitions", count), err
	})
}

func (trip *run) gather(ctx context.Context) error {
	for range 3 {
		if err := trip.join(ctx); err != nil {
			return err
		}
	}
	return trip.shared(ctx)
}

func (trip *run) join(ctx context.Context) error {
	member, err := trip.driver.Join(ctx, trip.group, trip.topic, trip.seen.Add)
	trip.members = append(trip.members, member)
	return err
}

// shared waits until three members hold four partitions each.
func (trip *run) shared(ctx context.Context) error {
	return until(ctx, func() (string, error) {
		held, err := trip.driver.Assigned(ctx, trip.group)
		fair := len(held) == 3 && held[0] == 4 && held[1] == 4 && held[2] == 4
		return note(!fair, "members hold %v partitions", held), err
	})
}

func (trip *run) firstHalf(ctx context.Context) error {
	if err := trip.produce(ctx, 0, trip.records/2); err != nil {
		return err
	}
	return trip.read(ctx, trip.records/2)
}

func (trip *run) churn(ctx context.Context) error {
	produced := make(chan error, 1)
	go func() { produced <- trip.produce(ctx, trip.records/2, trip.records) }()
	if err := trip.members[0].Leave(); err != nil {
		return fmt.Errorf("the leaving member: %w", err)
	}
	trip.members = trip.members[1:]
	if err := trip.join(ctx); err != nil {
		return err
	}
	if err := <-produced; err != nil {
		return err
	}
	if err := trip.read(ctx, trip.records); err != nil {
		return err
	}
	return trip.shared(ctx)
}

// produce sends the records with all codecs in turn.
func (trip *run) produce(ctx context.Context, first, last int) error {
	codecs := trip.driver.Codecs()
	for n, codec := range codecs {
		from, to := first+(last-first)*n/len(codecs), first+(last-first)*(n+1)/len(codecs)
		if err := trip.driver.Produce(ctx, trip.topic, codec, trip.plan.Range(from, to)); err != nil {
			return fmt.Errorf("produce with %s: %w", codec, err)
		}
	}
	return nil
}

// read waits until the group has read all records below last.
func (trip *run) read(ctx context.Context, last int) error {
	return until(ctx, func() (string, error) {
		missing := trip.seen.Missing(0, last)
		return note(missing > 0, "the group missed %d of %d records", missing, last), trip.seen.Fault()
	})
}

func (trip *run) committed(ctx context.Context) error {
	if err := leaveAll(trip.members); err != nil {
		return err
	}
	offsets, err := trip.driver.Committed(ctx, trip.group, trip.topic)
	if err != nil {
		return err
	}
	for partition := range Partitions {
		if end := int64(trip.records / Partitions); offsets[partition] != end {
			return fmt.Errorf("partition %d stands at %d, not at %d", partition, offsets[partition], end)
		}
	}
	return nil
}

func leaveAll(members []Member) error {
	var group sync.WaitGroup
	faults := make([]error, len(members))
	for n, member := range members {
		group.Go(func() { faults[n] = member.Leave() })
	}
	group.Wait()
	for _, fault := range faults {
		if fault != nil {
			return fault
		}
	}
	return nil
}

func (trip *run) resume(ctx context.Context) error {
	if err := trip.produce(ctx, trip.records, trip.records+extra); err != nil {
		return err
	}
	seen := NewSeen(trip.plan)
	member, err := trip.driver.Join(ctx, trip.group, trip.topic, seen.Add)
	if err != nil {
		return err
	}
	err = until(ctx, func() (string, error) {
		missing := seen.Missing(trip.records, trip.records+extra)
		return note(missing > 0, "%d of %d new records missing", missing, extra), seen.Fault()
	})
	if err != nil {
		return err
	}
	if seen.Total() != extra {
		return fmt.Errorf("%d records were read, only %d are new", seen.Total(), extra)
	}
	return member.Leave()
}

func (trip *run) readAll(ctx context.Context) error {
	count := (trip.records + extra) / Partitions
	for partition := range Partitions {
		records, err := trip.driver.Read(ctx, trip.topic, partition, 0, count)
		if err != nil {
			return err
		}
		for n, record := range records {
			if want := trip.plan.Record(Index(partition, int64(n))); record != want {
				return fmt.Errorf("got %+v, want %+v", record, want)
			}
		}
		if len(records) != count {
			return fmt.Errorf("partition %d has %d records, not %d", partition, len(records), count)
		}
	}
	return nil
}

func (trip *run) seek(ctx context.Context) error {
	for _, i := range []int{0, 1, trip.records / 3, trip.records - 1} {
		for partition := range Partitions {
			if err := trip.seekOne(ctx, i, partition); err != nil {
				return err
			}
		}
	}
	return nil
}

func (trip *run) seekOne(ctx context.Context, i, partition int) error {
	millis := trip.plan.Record(i).Millis
	offset, err := trip.driver.OffsetAt(ctx, trip.topic, partition, millis)
	if err != nil {
		return err
	}
	want := int64((i - partition + Partitions - 1) / Partitions)
	if offset != want {
		return fmt.Errorf("partition %d, time of record %d: offset %d, not %d", partition, i, offset, want)
	}
	records, err := trip.driver.Read(ctx, trip.topic, partition, offset, 1)
	if err != nil {
		return err
	}
	if record := trip.plan.Record(Index(partition, want)); len(records) != 1 || records[0] != record {
		return fmt.Errorf("got %+v after seek, want %+v", records, record)
	}
	return nil
}

func note(wrong bool, format string, values ...any) string {
	if wrong {
		return fmt.Sprintf(format, values...)
	}
	return ""
}

// until waits for wrong() to return "" within patience; an error ends the wait at once.
func until(ctx context.Context, wrong func() (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		what, err := wrong()
		if err != nil || what == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %v: %s", patience, what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
