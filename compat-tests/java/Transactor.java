import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactional producers that take one step a line, so that tools can look at open transactions.
 *
 * The argument is the bootstrap address.  Lines: init ID TIMEOUT_MS, begin ID,
 * send ID TOPIC PARTITION VALUE, offsets ID GROUP TOPIC PARTITION OFFSET, commit ID, abort ID.
 * Each is answered with one line: ok, with the place of a sent record, or the error.
 */
public final class Transactor {
    private static final Map<String, KafkaProducer<String, String>> PRODUCERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(arguments[0], line.split(" ")));
        }
        Runtime.getRuntime().halt(0);
    }

    private static String answer(String bootstrap, String[] words) {
        try {
            return step(bootstrap, words);
        } catch (ExecutionException failed) {
            return text(failed.getCause());
        } catch (Exception failed) {
            return text(failed);
        }
    }

    private static String text(Throwable error) {
        return error.getClass().getSimpleName() + ": " + error.getMessage();
    }

    private static String step(String bootstrap, String[] words) throws Exception {
        KafkaProducer<String, String> producer = PRODUCERS.get(words[1]);
        switch (words[0]) {
            case "init" -> init(bootstrap, words[1], words[2]);
            case "begin" -> producer.beginTransaction();
            case "send" -> {
                return "ok " + send(producer, words[2], Integer.parseInt(words[3]), words[4]);
            }
            case "offsets" -> producer.sendOffsetsToTransaction(
                Map.of(
                    new TopicPartition(words[3], Integer.parseInt(words[4])),
                    new OffsetAndMetadata(Long.parseLong(words[5]))),
                new ConsumerGroupMetadata(words[2]));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> throw new IllegalArgumentException(words[0]);
        }
        return "ok";
    }

    private static void init(String bootstrap, String id, String timeoutMs) {
        KafkaProducer<String, String> producer = new KafkaProducer<>(
            Map.of(
                "bootstrap.servers", bootstrap,
                "transactional.id", id,
                "transaction.timeout.ms", timeoutMs,
                "max.block.ms", "30000",
                "enable.metrics.push", "false"),
            new StringSerializer(),
            new StringSerializer());
        PRODUCERS.put(id, producer);
        producer.initTransactions();
    }

    private static String send(
            KafkaProducer<String, String> producer, String topic, int partition, String value)
            throws Exception {
        RecordMetadata sent =
            producer.send(new ProducerRecord<>(topic, partition, null, value)).get();
        return sent.topic() + "-" + sent.partition() + " " + sent.offset();
    }
}
