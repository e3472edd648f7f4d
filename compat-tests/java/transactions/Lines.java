import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;

/** Prints the lines that histories/history.py describes. */
final class Lines {
    private Lines() { }

    static void say(String kind, Object... words) {
        StringBuilder line = new StringBuilder(kind).append(' ').append(System.currentTimeMillis());
        for (Object word : words) {
            line.append(' ').append(word);
        }
        synchronized (Lines.class) {
            System.out.println(line);
            System.out.flush();
        }
    }

    static String name(Throwable error) {
        return error.getClass().getSimpleName();
    }

    static String place(TopicPartition where) {
        return where.topic().substring(0, 1) + where.partition();
    }

    /** Waits; returns false if the end came. */
    static boolean waits(CountDownLatch end, long ms) {
        try {
            return !end.await(ms, TimeUnit.MILLISECONDS);
        } catch (InterruptedException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
