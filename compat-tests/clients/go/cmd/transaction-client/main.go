// Command transaction-client is the transactional clients of franz-go.
//
//	transaction-client BOOTSTRAP FAMILY ZONE RATE SEED LIFE LISTS ACCOUNTS ORDERS
//
// Two appenders, two movers, a producer of orders; two tails, a reader that begins anywhere, an asker
// for last stable offsets.  It prints the lines that histories/history.py describes.  `flush` on
// standard input ends appenders and orders, `stop` the movers, its end the rest.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var mutex sync.Mutex // guards standard output

// run is the command line, and the ends of the run.
type run struct {
	seeds                                 []string
	family, zone, seed                    string
	rate, life, lists, accounts, orders   int
	flushed, stopped, ended               context.Context
	endFlushed, endStopped, endEverything context.CancelFunc
}

func say(kind, format string, words ...any) {
	mutex.Lock()
	defer mutex.Unlock()
	fmt.Printf("%s %d %s\n", kind, time.Now().UnixMilli(), fmt.Sprintf(format, words...))
}

// short names an error by a word or two, so that equal ones can be counted.
func short(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	words := strings.Fields(err.Error())
	return strings.Join(words[:min(6, len(words))], "_")
}

// waits returns false if the end came first.
func waits(end context.Context, pause time.Duration) bool {
	select {
	case <-end.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

func place(topic string, partition int32) string {
	return fmt.Sprintf("%c%d", topic[0], partition)
}

func (r *run) source(name string) *rand.Rand {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s %s %d", r.seed, name, r.life)
	return rand.New(rand.NewSource(int64(hash.Sum64())))
}

func (r *run) options(client string, more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(r.seeds...),
		kgo.ClientID(client),
		kgo.Rack(r.zone),
		kgo.MetadataMaxAge(5 * time.Second),
		kgo.RequestTimeoutOverhead(8 * time.Second),
	}, more...)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int {
	found, err := strconv.Atoi(text)
	must(err)
	return found
}

func main() {
	words := os.Args[1:]
	r := &run{
		seeds: strings.Split(words[0], ","), family: words[1], zone: words[2], seed: words[4],
		rate: number(words[3]), life: number(words[5]),
		lists: number(words[6]), accounts: number(words[7]), orders: number(words[8]),
	}
	r.flushed, r.endFlushed = context.WithCancel(context.Background())
	r.stopped, r.endStopped = context.WithCancel(context.Background())
	r.ended, r.endEverything = context.WithCancel(context.Background())
	go r.order()
	for each, timeout := range []time.Duration{time.Minute, 15 * time.Second} {
		go r.append(fmt.Sprintf("a%d", each+1), timeout)
		go r.move(fmt.Sprintf("m%d", each+1), timeout)
	}
	for level := range levels {
		go r.follow(level)
	}
	go r.readAgain()
	go r.askForStable()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "flush" {
			r.endFlushed()
		} else {
			r.endStopped()
		}
	}
	r.endEverything()
	time.Sleep(500 * time.Millisecond)
}
