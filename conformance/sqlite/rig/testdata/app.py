"""An application that inserts numbered rows, and says of each whether the insert returned: app.py JSON

The argument is an object: db, says, extension ("" for a plain program), journal ("" or what the connection asks for), ack and first, then
(how many rows), gate (a file whose coming separates the two), create (make the table), hold (keep the connection open at the end until this
file comes). Lines of says: "ack LEVEL", "ok N", "no N ERROR", "first", "done".
"""
import json
import os
import sqlite3
import sys
import threading
import time

how = json.loads(sys.argv[1])
out = os.open(how["says"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def say(*what):
    os.write(out, (" ".join(str(w).replace("\n", " ") for w in what) + "\n").encode())


def end():
    time.sleep(how.get("limit", 600))
    os._exit(9)


def until(path):
    while not os.path.exists(path):
        time.sleep(0.005)


def insert(c, n):
    try:
        c.execute("insert into entries values(?, ?)", (n, os.urandom(200)))
        say("ok", n)
    except sqlite3.Error as e:
        say("no", n, type(e).__name__, e)


threading.Thread(target=end, daemon=True).start()
say("pid", os.getpid())
if how.get("extension"):
    loader = sqlite3.connect(":memory:")
    loader.enable_load_extension(True)
    loader.load_extension(how["extension"])
    loader.close()
c = sqlite3.connect(how["db"], timeout=30, isolation_level=None)
if how.get("extension"):
    if how.get("ack"):
        c.execute("pragma holdfast_ack=" + how["ack"]).fetchall()
    say("ack", c.execute("pragma holdfast_ack").fetchone()[0])
if how.get("journal"):
    try:
        c.execute("pragma journal_mode=" + how["journal"]).fetchall()
    except sqlite3.Error as e:
        say("journal", e)
if how.get("create"):
    try:
        c.execute("create table if not exists entries(n integer primary key, pad blob)")
    except sqlite3.Error as e:
        say("create", type(e).__name__, e)
n = how.get("from", 0)
for _ in range(how.get("first", 0)):
    n += 1
    insert(c, n)
say("first")
if how.get("gate"):
    until(how["gate"])
for _ in range(how.get("then", 0)):
    n += 1
    insert(c, n)
    time.sleep(0.02)
say("done")
if how.get("hold"):
    until(how["hold"])
