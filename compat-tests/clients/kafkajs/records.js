// Record i of a run goes to partition i mod 12 with the time base+i ms, so its offset must be
// i div 12, and key and value can be computed: nothing needs to be remembered to check a record.
'use strict';

const PARTITIONS = 12;

function plan(baseMillis) {
  const record = (i) => ({
    partition: i % PARTITIONS,
    offset: Math.floor(i / PARTITIONS),
    timestamp: String(baseMillis + i),
    key: `key-${i}`,
    value: `${i}-${'tide'.repeat(20 + (i % 10))}`,
  });
  return { record, millis: (i) => baseMillis + i };
}

function check(records, partition, message) {
  const offset = Number(message.offset);
  const i = offset * PARTITIONS + partition;
  const want = records.record(i);
  const same =
    message.timestamp === want.timestamp &&
    String(message.key) === want.key &&
    String(message.value) === want.value;
  if (!same) {
    throw new Error(`partition ${partition}, offset ${offset}: got ${message.key}, want ${want.key}`);
  }
  return i;
}

// What the members of a group read.
class Seen {
  constructor(records) {
    this.records = records;
    this.indexes = new Set();
    this.total = 0;
    this.fault = null;
  }

  add(partition, message) {
    try {
      this.indexes.add(check(this.records, partition, message));
    } catch (error) {
      this.fault = this.fault || error;
    }
    this.total += 1;
  }

  missing(first, last) {
    if (this.fault) throw this.fault;
    let missing = 0;
    for (let i = first; i < last; i += 1) if (!this.indexes.has(i)) missing += 1;
    return missing;
  }
}

module.exports = { PARTITIONS, Seen, check, plan };
