import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The load of Kafka's Java clients for logins/run.py: an idempotent producer and a group member for
 * each way to log in.
 *
 * LoginClient FILE: logins/plan.py writes the file, logins/ledger.py describes the lines.  A line
 * on standard input ends the producers, its end the rest.
 */
public final class LoginClient {
    private static final String MODULES = "org.apache.kafka.common.security.";
    private static final String PADDING = ".".repeat(80);
    private static final long TICK_MS = 20;
    private static final long JOIN_MS = 20_000;

    private static volatile boolean isProducing = true;
    private static volatile boolean isConsuming = true;

    private final JsonNode plan;
    private final JsonNode login;
    private final String mechanism;
    private final String topic;

    private LoginClient(JsonNode plan, JsonNode login) {
        this.plan = plan;
        this.login = login;
        this.mechanism = login.get("mechanism").asText();
        this.topic = login.get("topic").asText();
    }

    private void say(String kind, String words) {
        synchronized (LoginClient.class) {
            long now = System.currentTimeMillis();
            System.out.println(kind + " " + now + " " + mechanism + " " + words);
            System.out.flush();
        }
    }

    private static String name(Throwable error) {
        return error.getClass().getSimpleName();
    }

    private Map<String, Object> settings() {
        Map<String, Object> found = new HashMap<>();
        found.put("client.id", "java");
        found.put("metadata.max.age.ms", 5000);
        found.put("ssl.truststore.type", "PEM");
        found.put("ssl.truststore.location", plan.get("ca").asText());
        String protocol = mechanism.equals("SSL") ? "SSL" : "SASL_SSL";
        found.put("security.protocol", protocol);
        found.put("bootstrap.servers", plan.get("servers").get(protocol).asText());
        if (protocol.equals("SSL")) {
            found.put("ssl.keystore.type", "PEM");
            found.put("ssl.keystore.location", login.get("certificate").asText());
            return found;
        }
        found.put("sasl.mechanism", mechanism);
        found.put("sasl.jaas.config", jaas());
        if (mechanism.equals("OAUTHBEARER")) {
            found.put("sasl.login.callback.handler.class",
                MODULES + "oauthbearer.OAuthBearerLoginCallbackHandler");
            found.put("sasl.oauthbearer.token.endpoint.url", plan.get("tokens").asText());
            found.put("sasl.login.refresh.min.period.seconds", (short) 1);
            found.put("sasl.login.refresh.buffer.seconds", (short) 1);
        }
        return found;
    }

    private String jaas() {
        String user = login.get("user").asText();
        String password = login.get("password").asText();
        if (mechanism.equals("OAUTHBEARER")) {
            return MODULES + "oauthbearer.OAuthBearerLoginModule required clientId=\"" + user
                + "\" clientSecret=\"" + password + "\";";
        }
        String module = mechanism.equals("PLAIN")
            ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        return MODULES + module + " required username=\"" + user + "\" password=\"" + password
            + "\";";
    }

    private void produce() {
        Map<String, Object> settings = settings();
        settings.put("enable.idempotence", true);
        settings.put("acks", "all");
        StringSerializer text = new StringSerializer();
        int rate = plan.get("rate").asInt();
        int partitions = plan.get("partitions").asInt();
        String user = login.get("user").asText();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
            long began = System.nanoTime();
            int number = 0;
            while (isProducing) {
                sleep();
                long due = (System.nanoTime() - began) / 1000 * rate / 1_000_000;
                for (; number < due; number++) {
                    send(producer, number, number % partitions, user);
                }
            }
            producer.flush();
            say("D", "");
        }
    }

    private void send(
            KafkaProducer<String, String> producer, int number, int partition, String user) {
        String value = user + " " + number + " " + PADDING;
        producer.send(new ProducerRecord<>(topic, partition, null, value), (sent, error) -> {
            if (error == null) {
                say("A", sent.partition() + " " + sent.offset() + " " + number);
            } else {
                say("F", partition + " " + number + " " + name(error));
            }
        });
    }

    private static void sleep() {
        try {
            Thread.sleep(TICK_MS);
        } catch (InterruptedException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private void consume() {
        Map<String, Object> settings = settings();
        settings.put("group.id", topic);
        settings.put("auto.offset.reset", "earliest");
        settings.put("auto.commit.interval.ms", 1000);
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(topic));
            while (isConsuming) {
                try {
                    take(consumer.poll(Duration.ofMillis(100)));
                } catch (KafkaException error) {
                    say("E", name(error));
                }
            }
        }
    }

    private void take(ConsumerRecords<String, String> records) {
        for (TopicPartition each : records.partitions()) {
            StringBuilder words = new StringBuilder("" + each.partition());
            for (ConsumerRecord<String, String> record : records.records(each)) {
                words.append(" " + record.offset() + ":" + record.value().split(" ")[1]);
            }
            say("C", words.toString());
        }
    }

    public static void main(String[] words) throws Exception {
        JsonNode plan = new ObjectMapper().readTree(Files.readString(Path.of(words[0])));
        System.setProperty(
            "org.apache.kafka.sasl.oauthbearer.allowed.urls", plan.get("tokens").asText());
        List<Thread> consumers = new ArrayList<>();
        for (JsonNode login : plan.get("logins")) {
            LoginClient client = new LoginClient(plan, login);
            consumers.add(new Thread(client::consume));
            new Thread(client::produce).start();
        }
        consumers.forEach(Thread::start);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        while (lines.readLine() != null) {
            isProducing = false;
        }
        isConsuming = false;
        for (Thread each : consumers) {
            each.join(JOIN_MS);
        }
        Runtime.getRuntime().halt(0);
    }
}
