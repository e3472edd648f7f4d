import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The load of Kafka's Java clients: an idempotent producer and a member of a group.
 *
 * FaultClient BOOTSTRAP TOPIC PARTITIONS RATE ZONE prints what it is told, as faults/ledger.py
 * describes.  `flush` on standard input ends the producer; the end of standard input the rest.
 */
public final class FaultClient {
    private static final String NAME = "java";
    private static final String PADDING = ".".repeat(80);
    private static final long TICK_MS = 20;
    private static final long COMMIT_MS = 500;
    /** Clients come back to a gateway before it is hurt again. */
    private static final int METADATA_MAX_AGE_MS = 5000;

    private static volatile boolean isProducing = true;
    private static volatile boolean isConsuming = true;

    private static void say(String kind, String words) {
        synchronized (FaultClient.class) {
            System.out.println(kind + " " + System.currentTimeMillis() + " " + words);
            System.out.flush();
        }
    }

    private static String name(Throwable error) {
        return error.getClass().getSimpleName();
    }

    private static void produce(String bootstrap, String topic, int partitions, int rate) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "client.id", NAME + "-producer",
            "enable.idempotence", true, "acks", "all", "metadata.max.age.ms", METADATA_MAX_AGE_MS);
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
            long began = System.nanoTime();
            long number = 0;
            while (isProducing) {
                sleep();
                long due = (System.nanoTime() - began) / 1000 * rate / 1_000_000;
                for (; number < due; number++) {
                    send(producer, topic, number, (int) (number * 7919 % partitions));
                }
            }
            producer.flush();
            say("D", "");
        }
    }

    private static void sleep() {
        try {
            Thread.sleep(TICK_MS);
        } catch (InterruptedException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static void send(
            KafkaProducer<String, String> producer, String topic, long number, int partition) {
        String value = NAME + " " + number + " " + partition + " " + PADDING;
        producer.send(new ProducerRecord<>(topic, partition, null, value), (sent, error) -> {
            if (error == null) {
                say("A", sent.partition() + " " + sent.offset() + " " + number);
            } else {
                say("F", partition + " " + number + " " + name(error));
            }
        });
    }

    /** A member of the group, which commits now and then. */
    private static final class Member implements ConsumerRebalanceListener {
        private final Map<TopicPartition, Long> read = new HashMap<>();
        private boolean isCommitting;
        private long commitAt;

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> taken) {
            read.clear();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> given) {
            read.clear();
            say("J", given.stream().map(each -> "" + each.partition())
                .collect(Collectors.joining(",")));
        }

        void run(KafkaConsumer<String, String> consumer) {
            while (isConsuming) {
                try {
                    take(consumer.poll(Duration.ofMillis(100)));
                } catch (WakeupException impossible) {
                    throw impossible;
                } catch (KafkaException error) {
                    say("E", "poll " + name(error));
                }
                if (!read.isEmpty() && !isCommitting && System.nanoTime() > commitAt) {
                    commit(consumer);
                }
            }
        }

        private void take(ConsumerRecords<String, String> records) {
            for (TopicPartition each : records.partitions()) {
                StringBuilder words = new StringBuilder("" + each.partition());
                for (ConsumerRecord<String, String> record : records.records(each)) {
                    String[] fields = record.value().split(" ");
                    words.append(" " + record.offset() + ":" + fields[0] + ":" + fields[1]);
                    read.put(each, record.offset() + 1);
                }
                say("C", words.toString());
            }
        }

        private void commit(KafkaConsumer<String, String> consumer) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            read.forEach((where, offset) -> offsets.put(where, new OffsetAndMetadata(offset)));
            String words = read.entrySet().stream()
                .map(each -> each.getKey().partition() + ":" + each.getValue())
                .collect(Collectors.joining(","));
            read.clear();
            isCommitting = true;
            commitAt = System.nanoTime() + COMMIT_MS * 1_000_000;
            say("T", words);
            consumer.commitAsync(offsets, (done, error) -> {
                isCommitting = false;
                say(error == null ? "K" : "E", error == null ? words : "commit " + name(error));
            });
        }
    }

    private static void consume(String bootstrap, String topic, String zone) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "client.id", NAME + "-consumer", "client.rack", zone,
            "group.id", NAME + "-group", "enable.auto.commit", false,
            "auto.offset.reset", "earliest",
            "metadata.max.age.ms", METADATA_MAX_AGE_MS,
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text)) {
            Member member = new Member();
            consumer.subscribe(List.of(topic), member);
            member.run(consumer);
        }
    }

    public static void main(String[] words) throws Exception {
        Thread producer = new Thread(() -> produce(
            words[0], words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3])));
        Thread consumer = new Thread(() -> consume(words[0], words[1], words[4]));
        producer.start();
        consumer.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        while (lines.readLine() != null) {
            isProducing = false;
        }
        isConsuming = false;
        consumer.join(10_000);
        Runtime.getRuntime().halt(0);
    }
}
