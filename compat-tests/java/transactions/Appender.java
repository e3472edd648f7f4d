import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Appends unique values to one to four lists. */
final class Appender extends Transactor {
    Appender(Run run, String name, int timeoutMs) {
        super(run, name, timeoutMs, run.flushed);
    }

    @Override
    void step() {
        List<Integer> every = new ArrayList<>();
        for (int each = 0; each < run.lists; each++) {
            every.add(each);
        }
        Collections.shuffle(every, random);
        List<Booking> records = new ArrayList<>();
        for (int each : every.subList(0, 1 + random.nextInt(4))) {
            for (int times = random.nextInt(2); times >= 0; times--) {
                records.add(new Booking("lists", each, ""));
            }
        }
        transact(records, random.nextInt(100) >= ABORTED_OF_HUNDRED, mine -> { });
    }
}
