import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Takes orders, and moves what they say between accounts. */
final class Mover extends Transactor implements ConsumerRebalanceListener {
    private static final int MOST_ORDERS = 10;

    private final KafkaConsumer<String, String> consumer;
    private boolean mustRewind;

    Mover(Run run, String name, int timeoutMs) {
        super(run, name, timeoutMs, run.stopped);
        Map<String, Object> settings = run.consumerSettings(this.name + "-consumer", "c", "earliest");
        settings.put("group.id", "movers-" + run.family);
        settings.put("session.timeout.ms", 10_000);
        settings.put("heartbeat.interval.ms", 2000);
        settings.put("max.poll.records", MOST_ORDERS);
        settings.put("partition.assignment.strategy",
            "org.apache.kafka.clients.consumer.RangeAssignor");
        StringDeserializer text = new StringDeserializer();
        consumer = new KafkaConsumer<>(settings, text, text);
        consumer.subscribe(List.of(run.topicOfOrders()), this);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> taken) { }

    /** Whatever is given begins at the committed offsets. */
    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> given) {
        mustRewind = false;
    }

    @Override
    void finish() {
        consumer.close();
    }

    @Override
    void step() {
        // First of all: a transaction of an earlier life makes the group's offsets unstable.
        ready();
        if (mustRewind) {
            rewind();
        }
        ConsumerRecords<String, String> got = consumer.poll(Duration.ofMillis(200));
        if (got.isEmpty()) {
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        List<Booking> records = new ArrayList<>();
        for (ConsumerRecord<String, String> each : got) {
            ends.put(new TopicPartition(each.topic(), each.partition()),
                new OffsetAndMetadata(each.offset() + 1));
            String order = each.partition() + "." + each.offset();
            String[] words = each.value().split(" ");
            int amount = Integer.parseInt(words[2]);
            records.add(new Booking(
                "accounts", Integer.parseInt(words[0]) % run.accounts, order + ":" + -amount));
            records.add(new Booking(
                "accounts", Integer.parseInt(words[1]) % run.accounts, order + ":" + amount));
        }
        mustRewind = true;
        mustRewind = !transact(records, random.nextInt(100) >= ABORTED_OF_HUNDRED,
            mine -> mine.sendOffsetsToTransaction(ends, consumer.groupMetadata()));
    }

    /** Goes back to the committed offsets; nothing is open of this id. */
    private void rewind() {
        Set<TopicPartition> assigned = consumer.assignment();
        Map<TopicPartition, OffsetAndMetadata> committed =
            consumer.committed(assigned, Duration.ofSeconds(10));
        for (TopicPartition each : assigned) {
            OffsetAndMetadata offset = committed.get(each);
            consumer.seek(each, offset == null ? 0 : offset.offset());
        }
        mustRewind = false;
    }
}
