"""Other programs at a database: story.py NAME DATABASE EXTENSION SECONDS. EXTENSION may be "-": a plain program.

What they do succeeds, or finds the database busy and is tried again; anything else ends the program with an error.
"""
import os
import random
import sqlite3
import sys
import time

name, path, extension, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])


def connect(**how):
    c = sqlite3.connect(path, timeout=1, isolation_level=None)
    c.execute("pragma synchronous=normal")
    return c


def until():
    end = time.time() + seconds
    while time.time() < end:
        yield


def patient(c, text, *args):
    end = time.time() + 40
    while time.time() < end:
        try:
            return c.execute(text, *args).fetchall()
        except sqlite3.OperationalError as e:
            if "locked" not in str(e) and "busy" not in str(e):
                raise
            time.sleep(0.02)
    raise SystemExit("%s: always busy" % text)


def fill(c, rows, size):
    patient(c, "create table if not exists more(n integer primary key, pad blob)")
    c.execute("begin immediate")
    for _ in range(rows):
        c.execute("insert into more(pad) values(?)", (os.urandom(size),))
    c.execute("commit")


def truncate():
    """#1337: checkpoints that empty the WAL, one after the other."""
    c = connect()
    done = tried = 0
    for _ in until():
        c.execute("pragma busy_timeout=%d" % random.choice([0, 0, 0, 1, 50]))  # it keeps writers out while it waits
        tried += 1
        done += patient(c, "pragma wal_checkpoint(truncate)")[0][0] == 0
        time.sleep(random.random() * 0.01)
    return "%d of %d checkpoints went through" % (done, tried)


def cron():
    """A program that comes, writes, checkpoints and goes."""
    done = 0
    for _ in until():
        c = connect()
        patient(c, "create table if not exists cron(n integer primary key, pad blob)")
        patient(c, "insert into cron(pad) values(?)", (os.urandom(random.randrange(9000)),))
        patient(c, "update cron set pad=? where n=?", (os.urandom(300), random.randrange(done + 1)))
        patient(c, "pragma wal_checkpoint(%s)" % random.choice(["passive", "full", "restart", "truncate"]))
        c.close()
        done += 1
        time.sleep(random.random() * 0.1)
    return "%d visits" % done


def vacuum():
    c = connect()
    done = 0
    for _ in until():
        fill(c, 200, 3000)
        patient(c, "delete from more where n % 3 = 0")
        patient(c, "vacuum")
        done += 1
    return "%d times" % done


def pagesize():
    """Only a rollback journal's database can be given another page size; nobody else may have it open."""
    c = connect()
    fill(c, 300, 3000)
    patient(c, "pragma journal_mode=delete")
    patient(c, "pragma page_size=1024")
    patient(c, "vacuum")
    assert patient(c, "pragma page_size") == [(1024,)]
    patient(c, "pragma journal_mode=wal")
    fill(c, 300, 3000)
    return "4096 to 1024"


def autovacuum():
    c = connect()
    patient(c, "pragma auto_vacuum=incremental")
    patient(c, "vacuum")
    done = 0
    for _ in until():
        fill(c, 300, 3000)
        patient(c, "delete from more where n % 2 = 0")
        patient(c, "pragma incremental_vacuum(100)")
        done += 1
    patient(c, "pragma incremental_vacuum")
    return "%d times" % done


def shrink():
    c = connect()
    patient(c, "pragma auto_vacuum=full")
    patient(c, "vacuum")
    fill(c, 3000, 3000)
    patient(c, "delete from more where n > 10")
    patient(c, "pragma wal_checkpoint(truncate)")
    fill(c, 10, 100)
    fill(c, 1000, 3000)
    patient(c, "drop table more")
    patient(c, "vacuum")
    fill(c, 10, 100)
    return "from 9 MB to nothing, twice"


def exclusive():
    c = connect()
    patient(c, "pragma locking_mode=exclusive")
    done = 0
    for _ in until():
        fill(c, 20, 2000)
        done += 1
    patient(c, "pragma wal_checkpoint(truncate)")
    fill(c, 20, 2000)
    patient(c, "pragma locking_mode=normal")
    patient(c, "select count(*) from more")
    fill(c, 20, 2000)
    return "%d commits" % done


def close():
    """The last connection goes, and takes the WAL with it."""
    done = 0
    for _ in until():
        c = connect()
        fill(c, random.randrange(1, 50), 2000)
        c.close()
        done += 1
    return "%d times" % done


def transaction():
    c = connect()
    c.execute("pragma cache_size=500")
    fill(c, 2000, 100000)
    fill(c, 10, 100)
    return "200 MB at once"


def gigabyte():
    c = connect()
    for _ in range(11):
        fill(c, 1000, 100000)
    patient(c, "pragma wal_checkpoint(passive)")
    fill(c, 100, 1000)
    return "1.1 GB in 11 transactions"


if extension != "-":
    loader = sqlite3.connect(":memory:")
    loader.enable_load_extension(True)
    for e in extension.split(","):
        loader.load_extension(e)
    loader.close()
first = connect()
patient(first, "pragma journal_mode=wal")
patient(first, "create table if not exists entries(w text, n int, pad blob, primary key(w, n))")
patient(first, "create table if not exists counters(id text primary key, count int)")
patient(first, "insert or ignore into counters values('all', 0)")
first.close()
print({f.__name__: f for f in (truncate, cron, vacuum, pagesize, autovacuum, shrink, exclusive, close, transaction, gigabyte)}[name]())
