// Writer puts one key after another with one client of jetcd (0.8.5, unmodified), which knows every address of the list, until it is ended. It prints a line
// for each put: ok or failed, how many milliseconds it took, the key, and the error, with tabs between.
//
//   java -cp 'JARS/*' Writer.java https://HOST:PORT,… CA-FILE

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.grpc.netty.GrpcSslContexts;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

public class Writer {
    public static void main(String[] args) throws Exception {
        Client client = Client.builder().endpoints(args[0].split(",")).authority("127.0.0.1")
            .sslContext(GrpcSslContexts.forClient().trustManager(new File(args[1])).build()).build();
        ByteSequence value = ByteSequence.from("written", StandardCharsets.UTF_8);
        for (int n = 0; ; n++) {
            String key = String.format("week/jetcd/%06d", n);
            long began = System.nanoTime();
            String error = "";
            try {
                client.getKVClient().put(ByteSequence.from(key, StandardCharsets.UTF_8), value).get(8, TimeUnit.SECONDS);
            } catch (Exception e) {
                error = e.toString().replace('\n', ' ').replace('\t', ' ');
            }
            long took = (System.nanoTime() - began) / 1_000_000;
            System.out.println((error.isEmpty() ? "ok" : "failed") + "\t" + took + "\t" + key + "\t" + error);
            System.out.flush();
            Thread.sleep(200);
        }
    }
}
