"""An application with many writers, that says of every commit whether it was acknowledged.

app.py DATABASE EXTENSION SAYS NAME WRITERS SECONDS BYTES

Every writer has a thread and a connection, and inserts rows (writer, 1), (writer, 2), ...; a trigger counts them all, so that a row without
its count, or a gap in a writer's rows, is half a commit. SAYS is a file: a line "ok WRITER NUMBER MILLISECONDS" is written when the insert
has returned, "no WRITER NUMBER MILLISECONDS ERROR" when it has failed; what was written before a kill -9 is in the file. It ends by itself
after SECONDS. EXTENSION may be several, with commas, or "-": a plain program. A row has up to BYTES of payload. Of several one is a slow disk: there
writers pause between two commits, because the lock is held for nearly all of the time, and a program that asks for it now and then would get it
for 40 seconds and more no time at all, also without an agent and without our extension (tried).
"""
import os
import random
import sqlite3
import sys
import threading
import time

path, extension, says, name, writers, seconds, most = sys.argv[1:8]
out = os.open(says, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def say(*what):
    os.write(out, (" ".join(str(w).replace("\n", " ") for w in what) + "\n").encode())


def now():
    return int(time.time() * 1000)


def end():
    time.sleep(float(seconds))
    os._exit(0)


def connect():
    c = sqlite3.connect(path, timeout=5, isolation_level=None)
    c.execute("pragma synchronous=normal")
    return c


def write(writer):
    c, at = None, 0
    while True:
        try:
            if c is None:
                c = connect()
                c.execute("pragma journal_mode=wal").fetchall()
                c.execute("create table if not exists counters(id text primary key, count int)")
                c.execute("create table if not exists entries(w text, n int, pad blob, primary key(w, n))")
                c.execute("create trigger if not exists counting after insert on entries begin "
                          "update counters set count=count+1 where id='all'; end")
                c.execute("insert or ignore into counters values('all', 0)")
                at = c.execute("select coalesce(max(n), 0) from entries where w=?", (writer,)).fetchone()[0]
            c.execute("insert into entries values(?, ?, ?)", (writer, at + 1, os.urandom(random.randrange(int(most)))))
            say("ok", writer, at + 1, now())
            at += 1
            if "," in extension:
                time.sleep(random.random() / 10)
        except sqlite3.Error as e:
            say("no", writer, at + 1, now(), type(e).__name__, e)
            time.sleep(0.02)
            if c is not None:  # whether it is there is looked up
                c.close()
            c = None


threading.Thread(target=end, daemon=True).start()
say("pid", os.getpid())
if extension != "-":
    loader = sqlite3.connect(":memory:")
    loader.enable_load_extension(True)
    for e in extension.split(","):
        loader.load_extension(e)
    loader.close()
threads = [threading.Thread(target=write, args=("%s%d" % (name, i),), daemon=True) for i in range(int(writers))]
for t in threads:
    t.start()
for t in threads:
    t.join()
