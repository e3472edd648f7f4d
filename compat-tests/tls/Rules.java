import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Reads rules and a subject a line, each UTF-8 in hex; writes the name in hex, or "none", "wrong". */
public final class Rules {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            out.append(shown(text(parts[0]), text(parts[1]))).append('\n');
        }
        System.out.print(out);
    }

    private static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }

    private static String shown(String rules, String subject) {
        try {
            String name = SslPrincipalMapper.fromRules(rules).getName(subject);
            return "=" + HexFormat.of().formatHex(name.getBytes(StandardCharsets.UTF_8));
        } catch (java.io.IOException error) {
            return "none";
        } catch (RuntimeException error) {
            return "wrong";
        }
    }
}
