// The round trip with KafkaJS: ADDRESS RECORDS on the command line, one line per check.
'use strict';

const { AssignerProtocol, Kafka, logLevel } = require('kafkajs');
const { register } = require('./codecs');
const { PARTITIONS, Seen, check, plan } = require('./records');

const PATIENCE_MS = 60000;
const CHUNK = 2400;
const EXTRA = 10 * PARTITIONS;

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Waits until wrong() returns nothing.
async function until(wrong) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const what = await wrong();
    if (!what) return;
    if (Date.now() > deadline) throw new Error(`after ${PATIENCE_MS} ms: ${what}`);
    await sleep(100);
  }
}

class Run {
  constructor(address, wanted) {
    this.records = wanted - (wanted % (2 * PARTITIONS));
    this.plan = plan(Date.now() - wanted - 60000);
    this.topic = `kafkajs-${Date.now()}`;
    this.group = `${this.topic}-group`;
    this.kafka = new Kafka({
      clientId: 'round-trip',
      brokers: [address],
      logLevel: logLevel.NOTHING,
      retry: { retries: 12, initialRetryTime: 100, maxRetryTime: 2000 },
    });
    this.admin = this.kafka.admin();
    this.producer = this.kafka.producer();
    this.seen = new Seen(this.plan);
    this.members = [];
  }

  async open() {
    this.codecs = await register();
    await Promise.all([this.admin.connect(), this.producer.connect()]);
  }

  async close() {
    const all = [this.admin, this.producer, ...this.members];
    await Promise.allSettled(all.map((client) => client.disconnect()));
  }

  async create() {
    const made = await this.admin.createTopics({
      topics: [{ topic: this.topic, numPartitions: PARTITIONS, replicationFactor: 1 }],
    });
    if (!made) throw new Error('the topic was there before');
    await until(async () => {
      const { topics } = await this.admin.fetchTopicMetadata({ topics: [this.topic] });
      const count = topics[0].partitions.length;
      return count !== PARTITIONS && `the topic has ${count} partitions`;
    });
  }

  async produce(first, last) {
    const names = Object.keys(this.codecs);
    for (const [n, name] of names.entries()) {
      const from = first + Math.floor(((last - first) * n) / names.length);
      const to = first + Math.floor(((last - first) * (n + 1)) / names.length);
      for (let i = from; i < to; i += CHUNK) {
        await this.send(i, Math.min(i + CHUNK, to), this.codecs[name]);
      }
    }
  }

  async send(first, last, compression) {
    const messages = [];
    for (let i = first; i < last; i += 1) messages.push(this.plan.record(i));
    const wanted = new Map();
    for (const each of messages) {
      if (!wanted.has(each.partition)) wanted.set(each.partition, each.offset);
    }
    const replies = await this.producer.send({
      topic: this.topic,
      acks: -1,
      compression,
      messages: messages.map(({ offset, ...message }) => message),
    });
    for (const { partition, baseOffset } of replies) {
      if (Number(baseOffset) !== wanted.get(partition)) {
        throw new Error(`partition ${partition}: base offset ${baseOffset}, not ${wanted.get(partition)}`);
      }
    }
  }

  // Adds a member; KafkaJS commits after each batch.
  async join(seen, group = this.group) {
    const consumer = this.kafka.consumer({
      groupId: group,
      heartbeatInterval: 500,
      sessionTimeout: 10000,
      maxWaitTimeInMs: 200,
    });
    await consumer.connect();
    await consumer.subscribe({ topic: this.topic, fromBeginning: true });
    await consumer.run({
      eachBatch: async ({ batch }) => {
        let next = null;
        for (const message of batch.messages) {
          if (next !== null && Number(message.offset) !== next) {
            seen.fault = seen.fault || new Error(`offset ${message.offset}, not ${next}`);
          }
          next = Number(message.offset) + 1;
          seen.add(batch.partition, message);
        }
      },
    });
    return consumer;
  }

  async gather() {
    this.members = await Promise.all([1, 2, 3].map(() => this.join(this.seen)));
    await this.shared();
  }

  // Waits until three members hold four partitions each.
  async shared() {
    await until(async () => {
      const { groups } = await this.admin.describeGroups([this.group]);
      const held = groups[0].members.map((member) => this.held(member)).join();
      const good = groups[0].state === 'Stable' && held === '4,4,4';
      return !good && `group is ${groups[0].state}, members hold ${held}`;
    });
  }

  held(member) {
    const assigned = AssignerProtocol.MemberAssignment.decode(member.memberAssignment);
    return assigned ? (assigned.assignment[this.topic] || []).length : 0;
  }

  async read(last) {
    await until(() => {
      const missing = this.seen.missing(0, last);
      return missing && `the group missed ${missing} of ${last} records`;
    });
  }

  async firstHalf() {
    await this.produce(0, this.records / 2);
    await this.read(this.records / 2);
  }

  async churn() {
    const produced = this.produce(this.records / 2, this.records);
    const [leaver] = this.members.splice(0, 1);
    await Promise.all([produced, leaver.disconnect().then(async () => {
      this.members.push(await this.join(this.seen));
    })]);
    await this.read(this.records);
    await this.shared();
  }

  async committed() {
    await Promise.all(this.members.splice(0).map((member) => member.disconnect()));
    const [{ partitions }] = await this.admin.fetchOffsets({ groupId: this.group, topics: [this.topic] });
    const end = String(this.records / PARTITIONS);
    const wrong = partitions.filter(({ offset }) => offset !== end);
    if (partitions.length !== PARTITIONS || wrong.length) {
      throw new Error(`wanted ${end} everywhere: ${JSON.stringify(wrong)}`);
    }
  }

  async resume() {
    await this.produce(this.records, this.records + EXTRA);
    const seen = new Seen(this.plan);
    this.members.push(await this.join(seen));
    await until(() => {
      const missing = seen.missing(this.records, this.records + EXTRA);
      return missing && `${missing} of ${EXTRA} new records missing`;
    });
    if (seen.total !== EXTRA) throw new Error(`${seen.total} records were read, only ${EXTRA} are new`);
    await this.members.pop().disconnect();
  }

  async readAll() {
    const seen = new Seen(this.plan);
    const all = this.records + EXTRA;
    this.members.push(await this.join(seen, `${this.topic}-all`));
    await until(() => {
      const missing = seen.missing(0, all);
      return missing && `${missing} of ${all} records missing`;
    });
    if (seen.total !== all) throw new Error(`${seen.total} records were read, ${all} were sent`);
    await this.members.pop().disconnect();
  }

  async seek() {
    for (const i of [0, 1, Math.floor(this.records / 3), this.records - 1]) await this.seekOne(i);
  }

  async seekOne(i) {
    const found = await this.admin.fetchTopicOffsetsByTimestamp(this.topic, this.plan.millis(i));
    for (const { partition, offset } of found) {
      const want = Math.ceil((i - partition) / PARTITIONS);
      if (Number(offset) !== Math.max(want, 0)) {
        throw new Error(`partition ${partition}, time of record ${i}: offset ${offset}, not ${want}`);
      }
    }
    const first = await this.firstAt(found, `${this.topic}-at-${i}`);
    for (const { partition, offset } of found) {
      const message = first.get(partition);
      check(this.plan, partition, message);
      if (message.offset !== offset) throw new Error(`seek to ${offset} gave ${message.offset}`);
    }
  }

  // The first record of each partition after seek().
  async firstAt(places, groupId) {
    const first = new Map();
    const consumer = this.kafka.consumer({ groupId, maxWaitTimeInMs: 200 });
    this.members.push(consumer);
    await consumer.connect();
    await consumer.subscribe({ topic: this.topic, fromBeginning: true });
    const started = new Promise((done) => consumer.on(consumer.events.GROUP_JOIN, done));
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        const { offset } = places.find((place) => place.partition === partition);
        // Records that were fetched before the seek took hold may still arrive.
        if (Number(message.offset) >= Number(offset) && !first.has(partition)) first.set(partition, message);
      },
    });
    places.forEach(({ partition, offset }) => consumer.seek({ topic: this.topic, partition, offset }));
    await started;
    await until(() => first.size < PARTITIONS && `${first.size} partitions gave a record after seek`);
    await this.members.pop().disconnect();
    return first;
  }
}

const STEPS = [
  ['create a topic with 12 partitions', 'create'],
  ['three members share the partitions', 'gather'],
  ['produce the first half with every codec, the group reads it', 'firstHalf'],
  ['one member leaves and one joins while the second half is produced', 'churn'],
  ["the group's offsets stand at the end", 'committed'],
  ['a new member resumes where the group stopped', 'resume'],
  ['content, order and offsets of every partition', 'readAll'],
  ['seek by time', 'seek'],
];

async function main() {
  const [address, records] = process.argv.slice(2);
  const run = new Run(address, Number(records));
  let step = 'connect';
  try {
    await run.open();
    for (const [name, method] of STEPS) {
      step = name;
      await run[method]();
      console.log('ok', name);
    }
  } catch (error) {
    console.log('FAILED', `${step}: ${error.message}`);
    process.exitCode = 1;
  }
  await Promise.race([run.close(), sleep(20000)]);
  process.exit();
}

main();
