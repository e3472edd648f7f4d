import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/**
 * The words of the command line, and the ends of a run.
 *
 * rate: transactions a second of each writer.  life: how often the program was started before.
 * lists, accounts, orders: numbers of partitions.
 */
final class Run {
    static final Map<String, String> LEVELS = Map.of("c", "read_committed", "u", "read_uncommitted");

    final CountDownLatch flushed = new CountDownLatch(1);
    final CountDownLatch stopped = new CountDownLatch(1);
    final CountDownLatch ended = new CountDownLatch(1);
    final String bootstrap;
    final String family;
    final String zone;
    final int rate;
    final String seed;
    final int life;
    final int lists;
    final int accounts;
    final int orders;

    Run(String[] words) {
        bootstrap = words[0];
        family = words[1];
        zone = words[2];
        rate = Integer.parseInt(words[3]);
        seed = words[4];
        life = Integer.parseInt(words[5]);
        lists = Integer.parseInt(words[6]);
        accounts = Integer.parseInt(words[7]);
        orders = Integer.parseInt(words[8]);
    }

    String topicOfOrders() {
        return "orders-" + family;
    }

    Map<String, Object> consumerSettings(String client, String level, String reset) {
        return new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "client.id", client, "client.rack", zone,
            "isolation.level", LEVELS.get(level), "enable.auto.commit", false,
            "auto.offset.reset", reset, "request.timeout.ms", 8000,
            "default.api.timeout.ms", 10_000, "metadata.max.age.ms", 5000));
    }
}
