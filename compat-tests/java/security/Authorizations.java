import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * What Kafka's own authorizer decides.
 *
 * One JSON object a line on stdin: {"supers", "everyone", "acls": [[type, pattern, name, principal,
 * host, operation, permission]], "questions": [[principal, host, operation, type, name or null]]},
 * with Kafka's numbers; one line on stdout: a 1 or a 0 for each question.
 */
public final class Authorizations {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Authorizations() { }

    /** Who asks. */
    private record Asking(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 3;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream replies = System.out;
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            replies.println(answers(authorizer, JSON.readTree(line)));
            replies.flush();
        }
    }

    private static String answers(StandardAuthorizer authorizer, JsonNode asked) throws Exception {
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        for (JsonNode each : asked.get("acls")) {
            acls.put(new Uuid(1, acls.size()), acl(each));
        }
        authorizer.configure(Map.of(
            StandardAuthorizer.SUPER_USERS_CONFIG, asked.get("supers").asText(),
            StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG,
            asked.get("everyone").asText(),
            "node.id", "1"));
        authorizer.loadSnapshot(acls);
        StringBuilder found = new StringBuilder();
        for (JsonNode each : asked.get("questions")) {
            found.append(answer(authorizer, each) == AuthorizationResult.ALLOWED ? '1' : '0');
        }
        return found.toString();
    }

    private static StandardAcl acl(JsonNode row) {
        return new StandardAcl(
            ResourceType.fromCode((byte) row.get(0).asInt()),
            row.get(2).asText(),
            PatternType.fromCode((byte) row.get(1).asInt()),
            row.get(3).asText(),
            row.get(4).asText(),
            AclOperation.fromCode((byte) row.get(5).asInt()),
            AclPermissionType.fromCode((byte) row.get(6).asInt()));
    }

    private static AuthorizationResult answer(StandardAuthorizer authorizer, JsonNode question)
            throws Exception {
        AuthorizableRequestContext who = new Asking(
            SecurityUtils.parseKafkaPrincipal(question.get(0).asText()),
            InetAddress.getByName(question.get(1).asText()));
        AclOperation operation = AclOperation.fromCode((byte) question.get(2).asInt());
        ResourceType type = ResourceType.fromCode((byte) question.get(3).asInt());
        if (question.get(4).isNull()) {
            return authorizer.authorizeByResourceType(who, operation, type);
        }
        ResourcePattern pattern =
            new ResourcePattern(type, question.get(4).asText(), PatternType.LITERAL);
        return authorizer.authorize(who, List.of(new Action(operation, pattern, 1, true, true)))
            .get(0);
    }
}
