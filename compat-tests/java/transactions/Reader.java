import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Prints what a consumer gets. */
final class Reader {
    private static final int REACH = 3000;
    private static final int WHOLE_OF_HUNDRED = 10;

    final String name;
    final String level;
    final KafkaConsumer<String, String> consumer;
    final List<TopicPartition> everything = new ArrayList<>();

    Reader(Run run, String kind, String level) {
        this.name = run.family + "-" + kind + "-" + level;
        this.level = level;
        StringDeserializer text = new StringDeserializer();
        consumer = new KafkaConsumer<>(run.consumerSettings(name, level, "none"), text, text);
        for (int each = 0; each < run.lists; each++) {
            everything.add(new TopicPartition("lists", each));
        }
        for (int each = 0; each < run.accounts; each++) {
            everything.add(new TopicPartition("accounts", each));
        }
    }

    void begin(Map<TopicPartition, Long> offsets) {
        Lines.say("P", name, level, words(offsets));
        consumer.assign(offsets.keySet());
        offsets.forEach(consumer::seek);
    }

    void take() {
        ConsumerRecords<String, String> got;
        try {
            got = consumer.poll(Duration.ofMillis(200));
        } catch (KafkaException error) {
            Lines.say("E", name, "poll", Lines.name(error));
            return;
        }
        for (TopicPartition each : got.partitions()) {
            Lines.say("R", name, Lines.place(each), got.records(each).stream()
                .map(record -> record.offset() + "=" + record.value())
                .collect(Collectors.joining(" ")));
        }
    }

    /** Returns the end of each partition, as this isolation level sees it; null: not now. */
    Map<TopicPartition, Long> ends() {
        try {
            return consumer.endOffsets(everything);
        } catch (KafkaException error) {
            Lines.say("E", name, "ends", Lines.name(error));
            return null;
        }
    }

    private static String words(Map<TopicPartition, Long> offsets) {
        return offsets.entrySet().stream()
            .map(each -> Lines.place(each.getKey()) + ":" + each.getValue()).collect(Collectors.joining(","));
    }

    /** Reads everything as it comes. */
    static void follow(Run run, String level) {
        Reader reader = new Reader(run, "tail", level);
        Map<TopicPartition, Long> begins = new LinkedHashMap<>();
        reader.everything.forEach(each -> begins.put(each, 0L));
        while (run.life > 0) {
            Map<TopicPartition, Long> ends = reader.ends();
            if (ends != null) {
                begins.putAll(ends);
                break;
            }
        }
        reader.begin(begins);
        while (run.ended.getCount() > 0) {
            reader.take();
        }
    }

    /** Reads from anywhere to the end, again and again, at one isolation level or the other. */
    static void readAgain(Run run) {
        List<Reader> readers = List.of(new Reader(run, "again", "c"), new Reader(run, "again", "u"));
        Random random = new Random((run.seed + "again" + run.life).hashCode());
        while (Lines.waits(run.ended, 4000 + random.nextInt(8000))) {
            Reader reader = readers.get(random.nextInt(3) % 2);
            Map<TopicPartition, Long> ends = reader.ends();
            if (ends == null) {
                continue;
            }
            long most = Collections.max(ends.values());
            long reach = random.nextInt(100) < WHOLE_OF_HUNDRED ? most : REACH;
            Map<TopicPartition, Long> begins = new LinkedHashMap<>();
            ends.forEach((where, end) ->
                begins.put(where, Math.max(0, end - random.nextLong(reach + 1))));
            reader.begin(begins);
            while (run.ended.getCount() > 0 && ends.keySet().stream()
                    .anyMatch(where -> reader.consumer.position(where) < ends.get(where))) {
                reader.take();
            }
            reader.consumer.unsubscribe();
        }
    }

    /** Asks for the last stable offsets, again and again. */
    static void askForStable(Run run) {
        Reader asker = new Reader(run, "asker", "c");
        while (Lines.waits(run.ended, 1000)) {
            long sent = System.currentTimeMillis();
            Map<TopicPartition, Long> ends = asker.ends();
            if (ends != null) {
                Lines.say("L", sent, words(ends));
            }
        }
    }
}
