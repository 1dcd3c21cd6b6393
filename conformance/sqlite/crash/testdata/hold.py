"""A program that has a database open until it is killed: hold.py DATABASE STATEMENTS MARK. MARK is a file that is there when it has."""
import sqlite3
import sys
import time

c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
c.execute("select count(*) from entries").fetchall()
for s in sys.argv[2].split(";"):
    c.execute(s).fetchall()
open(sys.argv[3], "w").close()
while True:
    time.sleep(1)
