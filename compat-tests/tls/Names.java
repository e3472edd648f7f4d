import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;

/** Reads names, DER in hex, one a line; writes getName() of each, UTF-8 in hex, or "refused". */
public final class Names {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.append(shown(line)).append('\n');
        }
        System.out.print(out);
    }

    private static String shown(String hex) {
        try {
            String name = new X500Principal(HexFormat.of().parseHex(hex)).getName();
            return HexFormat.of().formatHex(name.getBytes(StandardCharsets.UTF_8));
        } catch (RuntimeException error) {
            return "refused";
        }
    }
}
