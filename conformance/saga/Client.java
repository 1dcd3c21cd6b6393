import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import pub.dtm.client.DtmClient;
import pub.dtm.client.saga.Saga;
import pub.dtm.client.tcc.Tcc;

/**
 * Cases around DTM's Java client (dtmcli-java 2.1.4), unchanged: Client HOST:PORT of the coordinator. It starts the services itself and
 * prints a line for each case: ok or failed, the case, and what the services saw, with tabs between. It sets neither retry interval nor
 * headers: the client's setters call themselves without an end.
 */
public class Client {
    static final long PATIENCE_MS = 20_000;
    static final Map<String, Integer> BODY = Map.of("amount", 30);
    static final String PAID = "{\"amount\":30}";

    static final Map<String, List<String>> seen = new HashMap<>(); // by gid; guarded by itself, and so is answers
    static final Map<String, Deque<Integer>> answers = new HashMap<>(); // by gid/service: statuses before 200

    static String dtm;
    static String busi;
    static DtmClient client;

    interface Case {
        String run(String gid) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        dtm = "http://" + args[0];
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", Client::serve);
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
        busi = "http://127.0.0.1:" + server.getAddress().getPort() + "/";
        client = new DtmClient(args[0]);
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("saga that succeeds", Client::sagaSucceeds);
        cases.put("saga whose second step says no", Client::sagaFails);
        cases.put("saga with steps at the same time and orders", Client::sagaOrders);
        cases.put("tcc that is confirmed", Client::tccConfirmed);
        cases.put("tcc whose Try says no", Client::tccCancelled);
        cases.put("sixty submits of a megabyte at a time", Client::sixty);
        cases.put("an answer of five megabytes", Client::largeAnswer);
        cases.put("the same saga sent again after its end", Client::again);
        boolean good = true;
        int n = 0;
        for (Map.Entry<String, Case> c : cases.entrySet()) {
            String verdict = "ok";
            String note;
            try {
                note = c.getValue().run("java-" + System.nanoTime() + "-" + n++);
            } catch (Throwable e) {
                verdict = "failed";
                note = String.valueOf(e);
                good = false;
            }
            System.out.println(verdict + "\t" + c.getKey() + "\t" + note.replaceAll("\\s+", " "));
        }
        System.exit(good ? 0 : 1);
    }

    static void serve(HttpExchange x) throws IOException {
        Map<String, String> q = new HashMap<>();
        for (String pair : x.getRequestURI().getRawQuery().split("&")) {
            int at = pair.indexOf('=');
            q.put(pair.substring(0, at), pair.substring(at + 1));
        }
        String body = new String(x.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        if (body.length() > 1000) {
            body = body.length() + " letters";
        }
        String service = x.getRequestURI().getPath().substring(1);
        String call = q.get("branch_id") + " " + q.get("op") + " " + service + " " + x.getRequestMethod() + " " + body;
        int status = 200;
        synchronized (seen) {
            seen.computeIfAbsent(q.get("gid"), k -> new ArrayList<>()).add(call.trim());
            Deque<Integer> left = answers.get(q.get("gid") + "/" + service);
            if (left != null && !left.isEmpty()) {
                status = left.poll();
            }
        }
        String said = status == 200 ? "{\"dtm_result\":\"SUCCESS\"}" : "no money";
        byte[] text = (service.equals("Large") ? "x".repeat(5 << 20) : said).getBytes(StandardCharsets.UTF_8);
        x.sendResponseHeaders(status, text.length);
        x.getResponseBody().write(text);
        x.close();
    }

    static void answer(String gid, String service, Integer... statuses) {
        synchronized (seen) {
            answers.put(gid + "/" + service, new ArrayDeque<>(Arrays.asList(statuses)));
        }
    }

    static final Pattern STATUS = Pattern.compile("\"transaction\":\\{.*?\"status\":\"(\\w+)\"");

    /** Waits until a transaction has ended as it should, and returns what the services saw. */
    static List<String> ended(String gid, String status) throws Exception {
        HttpClient http = HttpClient.newHttpClient();
        for (long began = System.currentTimeMillis();; Thread.sleep(20)) {
            HttpRequest r = HttpRequest.newBuilder(URI.create(dtm + "/api/dtmsvr/query?gid=" + gid)).build();
            Matcher m = STATUS.matcher(http.send(r, HttpResponse.BodyHandlers.ofString()).body());
            String got = m.find() ? m.group(1) : "none";
            if (got.equals(status)) {
                break;
            }
            if (got.equals("succeed") || got.equals("failed") || System.currentTimeMillis() - began > PATIENCE_MS) {
                throw new AssertionError("the transaction is " + got + ", want " + status);
            }
        }
        synchronized (seen) {
            return new ArrayList<>(seen.getOrDefault(gid, List.of()));
        }
    }

    static String took(String gid, String status, String... calls) throws Exception {
        String got = String.join("; ", ended(gid, status));
        if (!got.equals(String.join("; ", calls))) {
            throw new AssertionError("the services saw " + got + ", want " + String.join("; ", calls));
        }
        return got;
    }

    static String call(String branch, String op, String service) {
        return branch + " " + op + " " + service + " POST " + PAID;
    }

    static Saga newSaga(String gid) {
        return client.newSaga(gid).add(busi + "TransOut", busi + "TransOutUndo", BODY).add(busi + "TransIn", busi + "TransInUndo", BODY);
    }

    static String sagaSucceeds(String gid) throws Exception {
        newSaga(gid).enableWaitResult().submit();
        return took(gid, "succeed", call("01", "action", "TransOut"), call("02", "action", "TransIn"));
    }

    static String sagaFails(String gid) throws Exception {
        answer(gid, "TransIn", 409);
        newSaga(gid).submit();
        return took(gid, "failed", call("01", "action", "TransOut"), call("02", "action", "TransIn"), call("02", "compensate", "TransInUndo"),
                call("01", "compensate", "TransOutUndo"));
    }

    static String sagaOrders(String gid) throws Exception {
        Saga s = client.newSaga(gid);
        for (String name : List.of("A", "B", "C")) {
            s.add(busi + name, busi + name + "Undo", BODY);
        }
        s.addBranchOrder(2, List.of(0, 1)).enableConcurrent().enableWaitResult().submit();
        List<String> got = ended(gid, "succeed");
        if (got.size() != 3 || !got.get(2).equals(call("03", "action", "C"))) {
            throw new AssertionError("the services saw " + got);
        }
        return "A and B, then C";
    }

    static void pay(Tcc t, String service) throws Exception {
        t.callBranch(BODY, busi + service, busi + service + "Confirm", busi + service + "Cancel").close();
    }

    static String tccConfirmed(String gid) throws Exception {
        client.tccGlobalTransaction(gid, t -> {
            pay(t, "TransOut");
            pay(t, "TransIn");
        });
        return took(gid, "succeed", call("01", "try", "TransOut"), call("02", "try", "TransIn"), call("02", "confirm", "TransInConfirm"),
                call("01", "confirm", "TransOutConfirm"));
    }

    static String tccCancelled(String gid) throws Exception {
        answer(gid, "TransIn", 409);
        try {
            client.tccGlobalTransaction(gid, t -> {
                pay(t, "TransOut");
                pay(t, "TransIn");
            });
        } catch (Exception e) {
            return took(gid, "failed", call("01", "try", "TransOut"), call("02", "try", "TransIn"), call("02", "cancel", "TransInCancel"),
                    call("01", "cancel", "TransOutCancel"));
        }
        throw new AssertionError("the sender is told of no error");
    }

    static String sixty(String gid) throws Exception {
        Map<String, String> body = Map.of("text", "x".repeat(1 << 20));
        List<Thread> all = new ArrayList<>();
        List<Throwable> failed = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            String one = gid + "-" + i;
            Thread t = new Thread(() -> {
                try {
                    client.newSaga(one).add(busi + "TransOut", busi + "TransOutUndo", body).submit();
                } catch (Throwable e) {
                    synchronized (failed) {
                        failed.add(e);
                    }
                }
            });
            t.start();
            all.add(t);
        }
        for (Thread t : all) {
            t.join();
        }
        if (!failed.isEmpty()) {
            throw new AssertionError(failed.size() + " were refused: " + failed.get(0));
        }
        for (int i = 0; i < 60; i++) {
            ended(gid + "-" + i, "succeed");
        }
        return "all are taken, and succeed";
    }

    static String largeAnswer(String gid) throws Exception {
        client.newSaga(gid).add(busi + "Large", busi + "LargeUndo", BODY).submit();
        return took(gid, "succeed", call("01", "action", "Large"));
    }

    static String again(String gid) throws Exception {
        newSaga(gid).enableWaitResult().submit();
        newSaga(gid).enableWaitResult().submit();
        return took(gid, "succeed", call("01", "action", "TransOut"), call("02", "action", "TransIn"));
    }
}
