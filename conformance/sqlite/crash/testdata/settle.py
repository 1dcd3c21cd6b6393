"""Brings all of a database into its file, so that it can be compared: settle.py DATABASE"""
import sqlite3
import sys

c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("pragma journal_mode").fetchall()
assert c.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0
assert c.execute("pragma integrity_check").fetchone()[0] == "ok"
c.close()
