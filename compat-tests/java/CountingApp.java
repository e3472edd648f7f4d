import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Counts the records of each key with Kafka Streams, exactly once.
 *
 * CountingApp BOOTSTRAP APPLICATION INPUT OUTPUT STATE-DIR TIMEOUT-MS [dump]
 *
 * The first word of a value of INPUT is the key; so records go through a repartition topic to the
 * store, whose every change goes to OUTPUT.  Lines on standard output:
 *
 *     STATE NAME                      what KafkaStreams became
 *     BEGIN STORE PARTITION COUNT     a store of this partition needs so many records
 *     END STORE PARTITION COUNT       it has them; COUNT were read
 *     STOP STORE PARTITION COUNT      the partition went to another instance meanwhile
 *     ERROR CLASS MESSAGE             a thread ended; the process ends then
 *     DUMP KEY=COUNT,...              all of the stores that are here, every second (with dump)
 */
public final class CountingApp {
    private static final String STORE = "counts";
    private static final int COMMIT_MS = 100;
    private static final int SESSION_MS = 6000;
    private static final Duration CLOSE = Duration.ofSeconds(10);

    private static synchronized void say(String... words) {
        System.out.println(String.join(" ", words));
        System.out.flush();
    }

    private static Properties settings(String[] words) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, words[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, words[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, COMMIT_MS);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(
            StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), SESSION_MS);
        settings.put(
            StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG),
            SESSION_MS / 3);
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), words[5]);
        return settings;
    }

    private static StreamsBuilder counting(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.ByteArray(), Serdes.String()))
            .selectKey((none, value) -> value.substring(0, value.indexOf(' ')))
            .groupByKey(Grouped.with("keyed", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as(STORE)
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(output, Produced.with(Serdes.String(), Serdes.String()));
        return builder;
    }

    /** Prints what the stores go through. */
    private static final class Restores implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition where, String store, long from, long to) {
            say("BEGIN", store, "" + where.partition(), "" + (to - from));
        }

        @Override
        public void onBatchRestored(TopicPartition where, String store, long end, long count) {
        }

        @Override
        public void onRestoreEnd(TopicPartition where, String store, long count) {
            say("END", store, "" + where.partition(), "" + count);
        }

        @Override
        public void onRestoreSuspended(TopicPartition where, String store, long count) {
            say("STOP", store, "" + where.partition(), "" + count);
        }
    }

    private static String dumped(KafkaStreams streams) {
        List<String> found = new ArrayList<>();
        ReadOnlyKeyValueStore<String, Long> store = streams.store(
            StoreQueryParameters.fromNameAndType(STORE, QueryableStoreTypes.keyValueStore()));
        try (KeyValueIterator<String, Long> all = store.all()) {
            while (all.hasNext()) {
                KeyValue<String, Long> each = all.next();
                found.add(each.key + "=" + each.value);
            }
        }
        return String.join(",", found);
    }

    private static void dump(KafkaStreams streams, CountDownLatch ended) throws Exception {
        while (!ended.await(1, TimeUnit.SECONDS)) {
            try {
                say("DUMP", dumped(streams));
            } catch (InvalidStateStoreException none) {
                // Another instance has all stores, or those of this one are being restored.
                say("DUMP", "");
            }
        }
    }

    public static void main(String[] words) throws Exception {
        KafkaStreams streams =
            new KafkaStreams(counting(words[2], words[3]).build(), settings(words));
        CountDownLatch ended = new CountDownLatch(1);
        streams.setGlobalStateRestoreListener(new Restores());
        streams.setStateListener((now, before) -> {
            say("STATE", now.name());
            if (now == KafkaStreams.State.ERROR || now == KafkaStreams.State.NOT_RUNNING) {
                ended.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(error -> {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            say("ERROR", cause.getClass().getSimpleName(), ("" + cause.getMessage()).split("\n")[0]);
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(CLOSE)));
        streams.start();
        if (words.length > 6) {
            dump(streams, ended);
        }
        ended.await();
        Runtime.getRuntime().halt(1);
    }
}
