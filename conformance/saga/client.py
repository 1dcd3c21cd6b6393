"""Cases around DTM's Python client (dtmcli 1.7.7.0), unchanged: client.py HOST:PORT of the coordinator.

It starts the services itself and prints a line for each case: ok or failed, the case, and what the services saw, with tabs between.
"""

import contextlib
import http.server
import io
import json
import sys
import threading
import time
import urllib.parse

import requests
from dtmcli import msg, saga, tcc, utils

DTM = "http://%s/api/dtmsvr" % sys.argv[1]
PATIENCE = 20
BODY = {"amount": 30}
PAID = json.dumps(BODY)

seen = {}  # by gid: what the services were asked, in order
answers = {}  # by gid and service: statuses to answer before 200
lock = threading.Lock()


class Services(http.server.BaseHTTPRequestHandler):
    """Answers as a case has told it and remembers what it was asked."""

    def do_POST(self):
        url = urllib.parse.urlparse(self.path)
        q = {k: v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        service = url.path.rpartition("/")[2]
        call = " ".join([q["branch_id"], q["op"], service, self.command, body]).strip()
        with lock:
            seen.setdefault(q["gid"], []).append(call)
            left = answers.get((q["gid"], service), [])
            status = left.pop(0) if left else 200
        text = b'{"dtm_result":"SUCCESS"}' if status == 200 else b"no money"
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Services)
threading.Thread(target=server.serve_forever, daemon=True).start()
BUSI = "http://127.0.0.1:%d/" % server.server_port


def took(gid, status, *calls):
    """Waits until a transaction has ended as it should and compares what the services saw."""
    began = time.time()
    while True:
        t = requests.get(DTM + "/query", params={"gid": gid}).json()["transaction"]
        if t["status"] == status:
            break
        if time.time() - began > PATIENCE or t["status"] in ("succeed", "failed"):
            raise AssertionError("the transaction is %s, want %s" % (t["status"], status))
        time.sleep(0.02)
    got = "; ".join(seen.get(gid, []))
    if got != "; ".join(calls):
        raise AssertionError("the services saw %s, want %s" % (got, "; ".join(calls)))
    return got or "no call"


def call(branch, op, service, body=PAID):
    return "%s %s %s POST %s" % (branch, op, service, body)


def new_saga(gid):
    s = saga.Saga(DTM, gid)
    s.trans_base.wait_result = True
    return s.add(BODY, BUSI + "TransOut", BUSI + "TransOutUndo").add(BODY, BUSI + "TransIn", BUSI + "TransInUndo")


FORWARD = [call("01", "action", "TransOut"), call("02", "action", "TransIn")]


def saga_succeeds(gid):
    new_saga(gid).submit()
    return took(gid, "succeed", *FORWARD)


def saga_fails(gid):
    answers[gid, "TransIn"] = [409]
    try:
        new_saga(gid).submit()
    except Exception:  # the client knows no better one
        return took(gid, "failed", *FORWARD, call("02", "compensate", "TransInUndo"), call("01", "compensate", "TransOutUndo"))
    raise AssertionError("the sender is told of no error")


def saga_retried(gid):
    answers[gid, "TransIn"] = [500]
    s = new_saga(gid)
    s.trans_base.wait_result = False
    s.trans_base.retry_interval = 1
    s.submit()
    return took(gid, "succeed", *FORWARD, FORWARD[1])


def msg_submitted(gid):
    m = msg.Msg(DTM, gid).add(BODY, BUSI + "TransOut").add(BODY, BUSI + "TransIn").set_wait_result()
    m.do_and_submit(BUSI + "Query", lambda barrier: None)
    return took(gid, "succeed", *FORWARD)


def msg_aborted(gid):
    def fail(_):
        raise utils.DTMFailureError("no money")

    m = msg.Msg(DTM, gid).add(BODY, BUSI + "TransOut")
    try:
        m.do_and_submit(BUSI + "Query", fail)
    except utils.DTMFailureError:
        return took(gid, "failed")
    raise AssertionError("the sender is told of no error")


def msg_asked(gid):
    m = msg.Msg(DTM, gid).add(BODY, BUSI + "TransOut")
    m.trans_base.timeout_to_fail = 1
    m.prepare(BUSI + "Query")
    return took(gid, "succeed", "00 msg Query GET", FORWARD[0])


def pay(t, service):
    t.call_branch(BODY, BUSI + service, BUSI + service + "Confirm", BUSI + service + "Cancel")


TRIES = [call("01", "try", "TransOut"), call("02", "try", "TransIn")]


def tcc_confirmed(gid):
    def run(t):
        pay(t, "TransOut")
        pay(t, "TransIn")

    if tcc.tcc_global_transaction(DTM, gid, run) != gid:
        raise AssertionError("the sender is told of a failure")
    return took(gid, "succeed", *TRIES, call("02", "confirm", "TransInConfirm"), call("01", "confirm", "TransOutConfirm"))


def tcc_cancelled(gid):
    answers[gid, "TransIn"] = [409]

    def run(t):
        pay(t, "TransOut")
        pay(t, "TransIn")

    with contextlib.redirect_stderr(io.StringIO()):  # the client prints the failure
        if tcc.tcc_global_transaction(DTM, gid, run) != "":
            raise AssertionError("the sender is told of no failure")
    return took(gid, "failed", *TRIES, call("02", "cancel", "TransInCancel"), call("01", "cancel", "TransOutCancel"))


def tcc_nested(gid):
    def run(t):
        pay(t, "TransOut")
        pay(tcc.tcc_from_req(DTM, gid, "01"), "TransIn")

    tcc.tcc_global_transaction(DTM, gid, run)
    return took(gid, "succeed", TRIES[0], call("0101", "try", "TransIn"), call("0101", "confirm", "TransInConfirm"),
                call("01", "confirm", "TransOutConfirm"))


CASES = [
    ("saga that succeeds", saga_succeeds),
    ("saga whose second step says no", saga_fails),
    ("saga whose service is broken once", saga_retried),
    ("msg that is prepared and submitted", msg_submitted),
    ("msg whose sender fails", msg_aborted),
    ("msg whose sender is never heard of: committed", msg_asked),
    ("tcc that is confirmed", tcc_confirmed),
    ("tcc whose Try says no", tcc_cancelled),
    ("tcc within tcc", tcc_nested),
]


def main():
    good = True
    for name, run in CASES:
        try:
            verdict, note = "ok", run(utils.gen_gid(DTM))
        except Exception as e:  # whatever it is, it is what became of this case
            verdict, note, good = "failed", "%s: %s" % (type(e).__name__, e), False
        print("%s\t%s\t%s" % (verdict, name, " ".join(note.split())))
    sys.exit(0 if good else 1)


main()
