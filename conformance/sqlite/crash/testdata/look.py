"""What is in a database that app.py has written to, as JSON: look.py DATABASE"""
import json
import sqlite3
import sys

c = sqlite3.connect("file:%s?mode=ro&immutable=1" % sys.argv[1], uri=True)
rows = {w: [n, least, most] for w, n, least, most in c.execute("select w, count(*), min(n), max(n) from entries group by w")}
count = c.execute("select count from counters where id='all'").fetchone()[0]
print(json.dumps({"integrity": c.execute("pragma integrity_check").fetchone()[0], "count": count, "rows": rows}))
