import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactional clients of Kafka's Java client; prints the lines that histories/history.py describes.
 *
 * TransactionClient BOOTSTRAP FAMILY ZONE RATE SEED LIFE LISTS ACCOUNTS ORDERS: two appenders, two
 * movers, a producer of orders; two tails, a reader that begins anywhere, an asker for last stable
 * offsets.  `flush` on standard input ends appenders and orders, `stop` the movers, its end the rest.
 */
public final class TransactionClient {
    private static final int NUMBER_OF_ACCOUNTS = 40;
    private static final int[] TIMEOUTS_MS = {60_000, 15_000};

    private static void order(Run run) {
        StringSerializer text = new StringSerializer();
        Random random = new Random((run.seed + "orders" + run.life).hashCode());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(Map.of(
                "bootstrap.servers", run.bootstrap, "enable.idempotence", true,
                "metadata.max.age.ms", 5000), text, text)) {
            for (int number = 0; Lines.waits(run.flushed, 1000 / (2 * run.rate)); number++) {
                int debtor = random.nextInt(NUMBER_OF_ACCOUNTS);
                int creditor = (debtor + 1 + random.nextInt(NUMBER_OF_ACCOUNTS - 1)) % NUMBER_OF_ACCOUNTS;
                String value = debtor + " " + creditor + " " + (1 + random.nextInt(100));
                producer.send(new ProducerRecord<>(run.topicOfOrders(), number % run.orders, null, value));
            }
            producer.flush();
        }
        Lines.say("D", "orders");
    }

    private static void start(Runnable task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (Throwable error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] words) throws Exception {
        Run run = new Run(words);
        start(() -> order(run));
        for (int each = 0; each < TIMEOUTS_MS.length; each++) {
            start(new Appender(run, "a" + (each + 1), TIMEOUTS_MS[each]));
            start(new Mover(run, "m" + (each + 1), TIMEOUTS_MS[each]));
        }
        Run.LEVELS.keySet().forEach(level -> start(() -> Reader.follow(run, level)));
        start(() -> Reader.readAgain(run));
        start(() -> Reader.askForStable(run));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String line;
        while ((line = lines.readLine()) != null) {
            ("flush".equals(line) ? run.flushed : run.stopped).countDown();
        }
        run.ended.countDown();
        Thread.sleep(500);
        Runtime.getRuntime().halt(0);
    }
}
