// Command sarama-logins is the load of sarama; see package logins.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
	"tidegate.example/compat/logins"
)

// exchange is what sarama asks of a SCRAM library.
type exchange struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (e *exchange) Begin(user, password, authorization string) error {
	client, err := e.hash.NewClient(user, password, authorization)
	if err == nil {
		e.ClientConversation = client.NewConversation()
	}
	return err
}

type tokens struct {
	plan *logins.Plan
	user string
}

func (t tokens) Token() (*sarama.AccessToken, error) {
	token, err := t.plan.Token(t.user)
	return &sarama.AccessToken{Token: token}, err
}

type client struct {
	login    logins.Login
	producer sarama.AsyncProducer
	group    sarama.ConsumerGroup
	stop     context.CancelFunc
	consumed chan struct{}
	answered chan struct{}
	sent     sync.WaitGroup
}

func settings(plan *logins.Plan, login logins.Login) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = "sarama"
	config.Version = sarama.V2_8_0_0
	config.Metadata.RefreshFrequency = 5 * time.Second
	config.Net.TLS.Enable, config.Net.TLS.Config = true, plan.TLS(login)
	config.Net.SASL.Enable = login.Certificate == ""
	config.Net.SASL.Mechanism = sarama.SASLMechanism(login.Mechanism)
	config.Net.SASL.User, config.Net.SASL.Password = login.User, login.Password
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		if login.Mechanism == sarama.SASLTypeSCRAMSHA256 {
			return &exchange{hash: scram.SHA256}
		}
		return &exchange{hash: scram.SHA512}
	}
	config.Net.SASL.TokenProvider = tokens{plan, login.User}
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Retry.Max = 20
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1 // an idempotent producer of sarama has no more
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Return.Errors = true
	return config
}

func start(plan *logins.Plan, login logins.Login) logins.Client {
	producer, err := sarama.NewAsyncProducer(plan.Addresses(login), settings(plan, login))
	if err != nil {
		log.Fatal(err)
	}
	group, err := sarama.NewConsumerGroup(plan.Addresses(login), login.Topic, settings(plan, login))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &client{login: login, producer: producer, group: group, stop: cancel,
		consumed: make(chan struct{}), answered: make(chan struct{})}
	go c.answers()
	go c.errors()
	go c.consume(ctx)
	return c
}

func (c *client) Send(number, partition int, value string) {
	c.sent.Add(1)
	c.producer.Input() <- &sarama.ProducerMessage{Topic: c.login.Topic, Partition: int32(partition),
		Value: sarama.StringEncoder(value), Metadata: number}
}

func (c *client) answers() {
	defer close(c.answered)
	successes, failures := c.producer.Successes(), c.producer.Errors()
	for successes != nil || failures != nil {
		select {
		case sent, is := <-successes:
			if !is {
				successes = nil
				continue
			}
			logins.Say("A", c.login, "%d %d %d", sent.Partition, sent.Offset, sent.Metadata)
			c.sent.Done()
		case failed, is := <-failures:
			if !is {
				failures = nil
				continue
			}
			logins.Say("F", c.login, "%d %d %s", failed.Msg.Partition, failed.Msg.Metadata,
				logins.Short(failed.Err))
			c.sent.Done()
		}
	}
}

// errors tells what a member got; it goes on by itself after a lost connection.
func (c *client) errors() {
	for err := range c.group.Errors() {
		kind := "E"
		if isOfConnection(err) {
			kind = "W"
		}
		logins.Say(kind, c.login, "%s", logins.Short(err))
	}
}

func isOfConnection(err error) bool {
	text := err.Error()
	return strings.Contains(text, "EOF") || strings.Contains(text, "connection") ||
		strings.Contains(text, "broker not connected")
}

func (c *client) Flush(limit time.Duration) bool {
	done := make(chan struct{})
	go func() { c.sent.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

func (c *client) Close() {
	c.producer.AsyncClose()
	<-c.answered
	c.stop()
	<-c.consumed
	c.group.Close()
}

func (c *client) consume(ctx context.Context) {
	defer close(c.consumed)
	for ctx.Err() == nil {
		err := c.group.Consume(ctx, []string{c.login.Topic}, c)
		if err != nil && !errors.Is(err, context.Canceled) {
			logins.Say("E", c.login, "%s", logins.Short(err))
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// Setup is sarama's.
func (c *client) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup is sarama's.
func (c *client) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim reads one partition.
func (c *client) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		select {
		case message, is := <-claim.Messages():
			if !is {
				return nil
			}
			fields := strings.Fields(string(message.Value))
			words := fmt.Sprintf("%d:%s", message.Offset, fields[1])
			logins.Say("C", c.login, "%d %s", message.Partition, words)
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	logins.Run(start)
}
