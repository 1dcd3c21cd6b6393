// Jetcd opens watches with one client of jetcd, each on a key of its own from a revision on, and says at the end of its input what they have told.
// Each key is to be put as 0, 1, 2 and so on.
//
//   java -cp 'JARS/*' Jetcd.java ADDRESS WATCHES REVISION

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.Watch;
import io.etcd.jetcd.options.WatchOption;
import io.etcd.jetcd.watch.WatchEvent;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLong;

public class Jetcd {
    public static void main(String[] args) throws Exception {
        int watches = Integer.parseInt(args[1]);
        WatchOption from = WatchOption.builder().withRevision(Long.parseLong(args[2])).build();
        AtomicLong events = new AtomicLong(), wrong = new AtomicLong(), ended = new AtomicLong();
        long[] next = new long[watches];
        Client client = Client.builder().endpoints("http://" + args[0]).build();
        for (int i = 0; i < watches; i++) {
            int watch = i;
            ByteSequence key = ByteSequence.from("/jetcd/" + i, StandardCharsets.UTF_8);
            client.getWatchClient().watch(key, from, Watch.listener(response -> {
                for (WatchEvent event : response.getEvents()) {
                    events.incrementAndGet();
                    long value = Long.parseLong(event.getKeyValue().getValue().toString(StandardCharsets.UTF_8));
                    if (value != next[watch]++) {
                        wrong.incrementAndGet();
                        next[watch] = value + 1;
                    }
                }
            }, error -> {
                System.err.println("watch " + watch + ": " + error);
                ended.incrementAndGet();
            }, ended::incrementAndGet));
        }
        while (System.in.read() >= 0) {
        }
        System.out.println(events + " " + wrong + " " + ended);
        Runtime.getRuntime().halt(0);
    }
}
