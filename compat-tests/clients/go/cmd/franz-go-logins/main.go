// Command franz-go-logins is the load of franz-go; see package logins.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"tidegate.example/compat/logins"
)

const metadataMaxAge = 5 * time.Second

type client struct {
	login    logins.Login
	producer *kgo.Client
	consumer *kgo.Client
	stop     context.CancelFunc
	consumed chan struct{}
}

func mechanism(plan *logins.Plan, login logins.Login) sasl.Mechanism {
	known := scram.Auth{User: login.User, Pass: login.Password}
	switch login.Mechanism {
	case "PLAIN":
		return plain.Auth{User: login.User, Pass: login.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return known.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return known.AsSha512Mechanism()
	}
	return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
		token, err := plan.Token(login.User)
		return oauth.Auth{Token: token}, err
	})
}

func open(plan *logins.Plan, login logins.Login, more ...kgo.Opt) *kgo.Client {
	options := append([]kgo.Opt{
		kgo.SeedBrokers(plan.Addresses(login)...),
		kgo.DialTLSConfig(plan.TLS(login)),
		kgo.ClientID("franz-go"),
		kgo.MetadataMaxAge(metadataMaxAge),
	}, more...)
	if login.Certificate == "" {
		options = append(options, kgo.SASL(mechanism(plan, login)))
	}
	opened, err := kgo.NewClient(options...)
	if err != nil {
		log.Fatal(err)
	}
	return opened
}

func start(plan *logins.Plan, login logins.Login) logins.Client {
	ctx, cancel := context.WithCancel(context.Background())
	c := &client{
		login:    login,
		producer: open(plan, login, kgo.RecordPartitioner(kgo.ManualPartitioner())),
		consumer: open(plan, login, kgo.ConsumerGroup(login.Topic), kgo.ConsumeTopics(login.Topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(time.Second)),
		stop:     cancel,
		consumed: make(chan struct{}),
	}
	go c.consume(ctx)
	return c
}

func (c *client) Send(number, partition int, value string) {
	record := kgo.StringRecord(value)
	record.Topic, record.Partition = c.login.Topic, int32(partition)
	c.producer.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
		if err != nil {
			logins.Say("F", c.login, "%d %d %s", partition, number, logins.Short(err))
			return
		}
		logins.Say("A", c.login, "%d %d %d", sent.Partition, sent.Offset, number)
	})
}

func (c *client) Flush(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return c.producer.Flush(ctx) == nil
}

func (c *client) Close() {
	c.stop()
	<-c.consumed
	c.consumer.Close()
	c.producer.Close()
}

func (c *client) consume(ctx context.Context) {
	defer close(c.consumed)
	for ctx.Err() == nil {
		fetches := c.consumer.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			if !errors.Is(failed.Err, context.Canceled) {
				logins.Say("E", c.login, "%s", logins.Short(failed.Err))
			}
		}
		fetches.EachPartition(func(part kgo.FetchTopicPartition) {
			words := []string{}
			for _, record := range part.Records {
				fields := strings.Fields(string(record.Value))
				words = append(words, fmt.Sprintf("%d:%s", record.Offset, fields[1]))
			}
			if len(words) > 0 {
				logins.Say("C", c.login, "%d %s", part.Partition, strings.Join(words, " "))
			}
		})
	}
}

func main() {
	logins.Run(start)
}
