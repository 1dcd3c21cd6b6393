"""The counter app of the benchmark: counter.py init DB [MB] | serve DB PORT | read DB

POST /count_up adds one to the only row of table counters and answers with the new count, GET /count with the count. A thread for
each connection of HTTP, a connection of SQLite for each thread, Rails 8's pragmas. COUNTER_EXTENSION is an extension to load first;
COUNTER_BURN_MS is processor time that each request takes besides, as a framework would.
"""
import json
import os
import socketserver
import sqlite3
import sys
import threading
import time

PRAGMAS = """
pragma journal_mode = wal; pragma synchronous = normal; pragma mmap_size = 134217728; pragma journal_size_limit = 67108864;
pragma cache_size = 2000; pragma foreign_keys = on;
"""
burn = float(os.environ.get("COUNTER_BURN_MS") or 0) / 1000


# What the last update of this connection came to. RETURNING would say so too, but hold the write lock until Python asks for a second row,
# which is as long as other threads keep the interpreter.
LAST = """
pragma temp_store = memory; create temp table last (count integer); insert into temp.last values (0);
create temp trigger remember after update on main.counters begin update last set count = new.count; end
"""


def connect(path):
    db = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
    for pragma in PRAGMAS.split(";"):
        if pragma.strip():
            db.execute(pragma).fetchall()
    return db


def init(path, mb):
    db = connect(path)
    db.executescript("""
        create table if not exists counters (id text primary key, count integer not null);
        insert or ignore into counters values ('count_up', 0);
        create table if not exists filler (id integer primary key, data blob);
    """)
    for _ in range(mb):
        db.execute("begin")
        db.executemany("insert into filler (data) values (?)", ((os.urandom(1000),) for _ in range(1000)))
        db.execute("commit")
    db.execute("pragma wal_checkpoint(truncate)").fetchall()
    db.close()


class Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        db = connect(sys.argv[2])
        db.executescript(LAST)
        try:
            while self.one(db):
                pass
        except ConnectionError:
            pass
        finally:
            db.close()

    def one(self, db):
        line = self.rfile.readline()
        if not line:
            return False
        length = 0
        while True:
            header = self.rfile.readline()
            if header in (b"\r\n", b""):
                break
            if header[:15].lower() == b"content-length:":
                length = int(header[15:])
        if length:
            self.rfile.read(length)
        status = b"200 OK"
        try:
            if line.startswith(b"POST /count_up "):
                if burn:
                    until = time.thread_time() + burn
                    while time.thread_time() < until:
                        pass
                db.execute("update counters set count = count + 1 where id = 'count_up'")
                body = {"count": db.execute("select count from temp.last").fetchall()[0][0]}
            elif line.startswith(b"GET /count "):
                body = {"count": db.execute("select count from counters where id = 'count_up'").fetchall()[0][0]}
            else:
                status, body = b"404 Not Found", {}
        except sqlite3.Error as e:
            status, body = b"500 Internal Server Error", {"error": str(e)}
            print(e, file=sys.stderr, flush=True)
        text = json.dumps(body).encode()
        self.wfile.write(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(text), text))
        return True


def until_orphaned():
    """Ends the app when the process that started it has gone: nobody would know of it."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


def main():
    extension = os.environ.get("COUNTER_EXTENSION")
    if extension:
        loader = sqlite3.connect(":memory:")
        loader.enable_load_extension(True)
        loader.load_extension(extension)
    what, path = sys.argv[1:3]
    if what == "init":
        init(path, int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    elif what == "read":
        db = sqlite3.connect(path)
        if db.execute("pragma integrity_check").fetchall() != [("ok",)]:
            sys.exit(path + " is damaged")
        print(db.execute("select count from counters where id = 'count_up'").fetchall()[0][0])
    elif what == "serve":
        threading.Thread(target=until_orphaned, daemon=True).start()
        Server(("127.0.0.1", int(sys.argv[3])), Handler).serve_forever()
    else:
        sys.exit(__doc__)


main()
