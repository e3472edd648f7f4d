import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/** One transactional id; a producer that fails for good is replaced. */
abstract class Transactor implements Runnable {
    static final int ABORTED_OF_HUNDRED = 15;
    private static final long GIVE_UP_MS = 120_000;

    /** A record of a transaction; text follows TXN:INDEX:COUNT in its value. */
    record Booking(String topic, int partition, String text) { }

    /** What a transaction does after its records. */
    interface Offsets {
        void send(KafkaProducer<String, String> producer);
    }
    final Run run;
    final String name;
    final Random random;
    private final int timeoutMs;
    private final CountDownLatch end;
    private KafkaProducer<String, String> producer;
    private int number;

    Transactor(Run run, String name, int timeoutMs, CountDownLatch end) {
        this.run = run;
        this.name = run.family + "-" + name;
        this.random = new Random((run.seed + this.name + run.life).hashCode());
        this.timeoutMs = timeoutMs;
        this.end = end;
    }

    abstract void step();

    @Override
    public void run() {
        long due = System.currentTimeMillis();
        do {
            try {
                step();
            } catch (KafkaException error) {
                Lines.say("E", name, "step", Lines.name(error));
            }
            long now = System.currentTimeMillis();
            due = Math.max(due + 1000 / run.rate, now - 1000);
        } while (Lines.waits(end, Math.max(0, due - System.currentTimeMillis())));
        close();
        finish();
        Lines.say("D", name);
    }

    /** Ends what else the writer has. */
    void finish() { }

    private void close() {
        if (producer != null) {
            producer.close(Duration.ZERO);
            producer = null;
        }
    }

    /** Returns a producer that may begin a transaction. */
    KafkaProducer<String, String> ready() {
        if (producer == null) {
            StringSerializer text = new StringSerializer();
            KafkaProducer<String, String> made = new KafkaProducer<>(Map.of(
                "bootstrap.servers", run.bootstrap, "client.id", name + " zone=" + run.zone,
                "transactional.id", name, "transaction.timeout.ms", timeoutMs,
                "request.timeout.ms", 8000, "delivery.timeout.ms", 30_000,
                "max.block.ms", 15_000, "metadata.max.age.ms", 5000, "linger.ms", 2),
                text, text);
            try {
                made.initTransactions();
            } catch (KafkaException error) {
                made.close(Duration.ZERO);
                throw error;
            }
            producer = made;
        }
        return producer;
    }

    /** Does one transaction; returns whether it was committed, as far as is known. */
    boolean transact(List<Booking> records, boolean commits, Offsets offsets) {
        number++;
        String txn = name + "-" + run.life + "." + number;
        String[] places = new String[records.size()];
        Arrays.fill(places, "");
        KafkaProducer<String, String> mine = ready();
        try {
            mine.beginTransaction();
            Lines.say("B", txn);
            for (int index = 0; index < places.length; index++) {
                send(mine, txn, records.get(index), places, index);
                think();
            }
            offsets.send(mine);
        } catch (KafkaException error) {
            Lines.say("E", name, "transaction", Lines.name(error));
            abort(mine, txn, places);
            return false;
        }
        if (commits) {
            return commit(mine, txn, places);
        }
        abort(mine, txn, places);
        return false;
    }

    private void send(
            KafkaProducer<String, String> mine, String txn, Booking each, String[] places, int index) {
        String more = each.text().isEmpty() ? "" : ":" + each.text();
        String value = txn + ":" + index + ":" + places.length + more;
        mine.send(new ProducerRecord<>(each.topic(), each.partition(), null, value), (sent, error) -> {
            if (error == null) {
                TopicPartition where = new TopicPartition(sent.topic(), sent.partition());
                places[index] = Lines.place(where) + ":" + sent.offset();
            }
        });
    }

    private void think() {
        double draw = random.nextDouble();
        if (draw < 0.02) {
            Lines.waits(run.ended, 100 + random.nextInt(1400));
        } else if (draw < 0.2) {
            Lines.waits(run.ended, random.nextInt(50));
        }
    }

    private boolean commit(KafkaProducer<String, String> mine, String txn, String[] places) {
        Lines.say("T", txn, "commit", places.length);
        KafkaException error = insist(mine::commitTransaction);
        if (error == null) {
            Lines.say("K", txn, "commit", String.join(",", places));
        } else if (isFatal(error)) {
            lose(txn, error);
        } else {
            Lines.say("E", name, "commit", Lines.name(error));
            abort(mine, txn, places);
        }
        return error == null;
    }

    private void abort(KafkaProducer<String, String> mine, String txn, String[] places) {
        Lines.say("T", txn, "abort", places.length);
        KafkaException error = insist(mine::abortTransaction);
        if (error == null) {
            Lines.say("K", txn, "abort", String.join(",", places));
        } else {
            lose(txn, error);
        }
    }

    /** Repeats a call as long as it may be repeated; returns its error. */
    private KafkaException insist(Runnable call) {
        long giveUp = System.currentTimeMillis() + GIVE_UP_MS;
        while (true) {
            try {
                call.run();
                return null;
            } catch (TimeoutException error) {
                Lines.say("E", name, "end", Lines.name(error));
                if (System.currentTimeMillis() > giveUp) {
                    return error;
                }
            } catch (KafkaException error) {
                return error;
            }
        }
    }

    private static boolean isFatal(KafkaException error) {
        return error instanceof ProducerFencedException || error instanceof TimeoutException
            || error instanceof OutOfOrderSequenceException || error instanceof AuthorizationException;
    }

    /** The end is unknown; the next producer of the id will find it out. */
    private void lose(String txn, KafkaException error) {
        Lines.say("U", txn, Lines.name(error));
        close();
    }
}
