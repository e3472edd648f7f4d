// The load of KafkaJS for logins/run.py: a producer and a group member for each way to log in.
// logins/plan.py writes the file that is named on the command line, logins/ledger.py describes the
// lines.  A line on standard input ends the producers, its end the rest.
'use strict';

const fs = require('fs');
const readline = require('readline');
const { Kafka, logLevel } = require('kafkajs');

const TICK_MS = 20;
const PADDING = '.'.repeat(80);
const plan = JSON.parse(fs.readFileSync(process.argv[2]));
const ca = fs.readFileSync(plan.ca);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
let isProducing = true;

async function token(user) {
  const reply = await fetch(plan.tokens, {
    method: 'POST',
    headers: { Authorization: `Basic ${Buffer.from(`${user}:secret`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials' }),
  });
  return { value: (await reply.json()).access_token };
}

class Client {
  constructor(login) {
    this.login = login;
    this.number = 0;
    this.waiting = [];
    this.kafka = new Kafka({
      clientId: 'kafkajs',
      brokers: plan.servers[login.certificate ? 'SSL' : 'SASL_SSL'].split(','),
      ...this.security(),
      logLevel: logLevel.ERROR,
      logCreator: () => ({ log }) => this.say('W', (log.error || log.message).replace(/\s+/g, ' ')),
      // Its default of a second is short where all clients and gateways share two cores.
      connectionTimeout: 10000,
      retry: { retries: 12, initialRetryTime: 100, maxRetryTime: 2000 },
    });
  }

  security() {
    const { mechanism, user, password, certificate } = this.login;
    if (certificate) {
      const own = fs.readFileSync(certificate);
      return { ssl: { ca, key: own, cert: own } };
    }
    if (mechanism === 'OAUTHBEARER') {
      const sasl = { mechanism: 'oauthbearer', oauthBearerProvider: () => token(user) };
      return { ssl: { ca }, sasl, reauthenticationThreshold: 1000 };
    }
    const sasl = { mechanism: mechanism.toLowerCase(), username: user, password };
    return { ssl: { ca }, sasl, reauthenticationThreshold: 1000 };
  }

  say(kind, words) {
    process.stdout.write(`${kind} ${Date.now()} ${this.login.mechanism} ${words}\n`);
  }

  // KafkaJS sends what came meanwhile at once; an idempotent producer has one request under way.
  async produce() {
    this.producer = this.kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
    await this.producer.connect();
    const began = Date.now();
    while (isProducing) {
      await sleep(TICK_MS);
      const due = Math.floor(((Date.now() - began) * plan.rate) / 1000);
      const messages = [];
      for (; this.number < due; this.number += 1) {
        const value = `${this.login.user} ${this.number} ${PADDING}`;
        messages.push({ value, partition: this.number % plan.partitions, number: this.number });
      }
      if (messages.length) await this.send(messages);
    }
    this.say('D', '');
  }

  async send(messages) {
    const sent = messages.map(({ value, partition }) => ({ value, partition }));
    try {
      const replies = await this.producer.send({ topic: this.login.topic, acks: -1, messages: sent });
      for (const { partition, baseOffset } of replies) {
        messages.filter((each) => each.partition === partition).forEach((each, n) => {
          const offset = Number(baseOffset) < 0 ? -1 : Number(baseOffset) + n;
          this.say('A', `${partition} ${offset} ${each.number}`);
        });
      }
    } catch (error) {
      const text = `${error.name} ${error.message}`.replace(/\s+/g, ' ');
      messages.forEach((each) => this.say('F', `${each.partition} ${each.number} ${text}`));
    }
  }

  async consume() {
    this.consumer = this.kafka.consumer({
      groupId: this.login.topic,
      heartbeatInterval: 1000,
      maxWaitTimeInMs: 500,
    });
    this.consumer.on(this.consumer.events.CRASH, ({ payload }) => {
      const text = `${payload.error.name} ${payload.error.message}`.replace(/\s+/g, ' ');
      this.say('E', `${text} restart: ${payload.restart}`);
    });
    await this.consumer.connect();
    await this.consumer.subscribe({ topic: this.login.topic, fromBeginning: true });
    await this.consumer.run({
      autoCommitInterval: 1000,
      eachBatch: async ({ batch }) => {
        const words = batch.messages.map((each) => `${each.offset}:${String(each.value).split(' ')[1]}`);
        if (words.length) this.say('C', `${batch.partition} ${words.join(' ')}`);
      },
    });
  }
}

async function main() {
  const clients = plan.logins.map((login) => new Client(login));
  const lines = readline.createInterface({ input: process.stdin });
  lines.on('line', () => { isProducing = false; });
  const ended = new Promise((done) => lines.on('close', done));
  const fail = (error) => { console.error(error); process.exit(1); };
  clients.forEach((each) => { each.produce().catch(fail); each.consume().catch(fail); });
  await ended;
  const all = clients.flatMap((each) => [each.producer, each.consumer]);
  await Promise.race([Promise.allSettled(all.map((each) => each && each.disconnect())), sleep(15000)]);
  process.exit();
}

main();
