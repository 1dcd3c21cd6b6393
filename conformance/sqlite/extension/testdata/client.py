"""An application with connections to SQLite, driven line by line: JSON in, JSON out, each answer with the number of its request.

Every connection has a thread of its own, so that one which waits in a commit keeps nobody else from anything.
"""
import json
import os
import queue
import sqlite3
import sys
import threading

printing = threading.Lock()


def answer(number, **what):
    with printing:
        print(json.dumps({"id": number, **what}, default=repr), flush=True)


class Connection(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.work = queue.Queue()
        self.start()

    def run(self):
        db = None
        while True:
            number, op, text = self.work.get()
            try:
                rows = []
                if op == "open":
                    db = sqlite3.connect(text, uri=text.startswith("file:"), isolation_level=None, timeout=5)
                elif op == "close":
                    db.close()
                else:
                    rows = db.execute(text).fetchall()
                answer(number, rows=rows)
            except BaseException as e:  # MemoryError is one of the answers looked for
                answer(number, error=f"{type(e).__name__}: {e}")
            if op == "close":
                return


def run_all(path, statements):
    db = sqlite3.connect(path, isolation_level=None, timeout=5)
    out = [db.execute(s).fetchall() for s in statements]
    db.close()
    return out


def fork(number, path, statements):
    """A child opens the database anew and leaves what it inherited alone, as SQLite asks for."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps({"rows": run_all(path, statements)}, default=repr).encode())
        except BaseException as e:
            os.write(write, json.dumps({"error": repr(e)}).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        said = f.read()
    os.waitpid(child, 0)
    answer(number, **json.loads(said or '{"error": "the child said nothing"}'))


def main():
    loader = sqlite3.connect(":memory:")
    loader.enable_load_extension(True)
    loader.load_extension(sys.argv[1])
    loader.close()
    connections = {}
    answer(0, rows=[[sqlite3.sqlite_version]])
    for line in sys.stdin:
        r = json.loads(line)
        if r["op"] == "fork":
            fork(r["id"], r["text"], r["statements"])
            continue
        if r["op"] == "open":
            connections[r["conn"]] = Connection()
        connections[r["conn"]].work.put((r["id"], r["op"], r["text"]))
    os._exit(0)


main()
