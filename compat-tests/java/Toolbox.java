import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.FutureTask;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs many of Kafka's command line tools in one JVM: starting a JVM for each costs 1.6 s of CPU.
 *
 * One JSON object a line on stdin: {"main", "args", "stdin", "seconds"}; one a line on stdout:
 * {"exit", "stdout", "stderr"}, exit -1 when the time ran out (the JVM then ends: start another).
 * Kafka's tools leave through Exit, whose procedure and shutdown hooks can be replaced.
 */
public final class Toolbox {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<Runnable> HOOKS = new ArrayList<>();

    /** Set by the first exit of a call: the real JVM would have ended there. */
    private static Integer exitStatus;

    private static final class Left extends RuntimeException {
        Left() {
            super(null, null, false, false);
        }
    }

    private static synchronized void leave(int status, String message) {
        if (exitStatus == null) {
            exitStatus = status;
            if (message != null) {
                System.err.println(message);
            }
            PrintStream nowhere = new PrintStream(OutputStream.nullOutputStream());
            System.setOut(nowhere);
            System.setErr(nowhere);
        }
        throw new Left();
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream replies = System.out;
        InputStream requests = System.in;
        Exit.setExitProcedure(Toolbox::leave);
        Exit.setHaltProcedure(Toolbox::leave);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        BufferedReader lines = new BufferedReader(new InputStreamReader(requests, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode reply = call(JSON.readTree(line));
            replies.write((JSON.writeValueAsString(reply) + "\n").getBytes("UTF-8"));
            replies.flush();
            if (reply.get("exit").asInt() == -1) {
                Runtime.getRuntime().halt(0);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static ObjectNode call(JsonNode request) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, "UTF-8"));
        System.setErr(new PrintStream(err, true, "UTF-8"));
        System.setIn(new ByteArrayInputStream(request.path("stdin").asText("").getBytes("UTF-8")));
        exitStatus = null;
        ObjectNode reply = JSON.createObjectNode();
        reply.put("exit", timed(request));
        System.out.flush();
        System.err.flush();
        reply.put("stdout", out.toString("UTF-8"));
        reply.put("stderr", err.toString("UTF-8"));
        return reply;
    }

    private static int timed(JsonNode request) throws Exception {
        FutureTask<Integer> task = new FutureTask<>(() -> status(request));
        Thread thread = new Thread(task, "tool");
        thread.setDaemon(true);
        thread.start();
        try {
            return task.get(request.path("seconds").asInt(60), TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            return -1;
        }
    }

    private static int status(JsonNode request) throws Exception {
        PrintStream out = System.out;
        try {
            return run(request);
        } finally {
            System.setOut(out);
            List<Runnable> hooks = new ArrayList<>(HOOKS);
            HOOKS.clear();
            hooks.forEach(Runnable::run);
        }
    }

    private static int run(JsonNode request) throws Exception {
        List<String> words = new ArrayList<>();
        request.get("args").forEach(word -> words.add(word.asText()));
        try {
            Class.forName(request.get("main").asText())
                .getMethod("main", String[].class)
                .invoke(null, (Object) words.toArray(new String[0]));
            return exitStatus == null ? 0 : exitStatus;
        } catch (InvocationTargetException thrown) {
            if (exitStatus != null) {
                return exitStatus;
            }
            System.err.println("Exception: " + thrown.getCause());
            return 1;
        }
    }
}
