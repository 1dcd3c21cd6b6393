"""mysql-connector-python against the server of the conformance run: prepared.py HOST PORT. Its statements are prepared by the server."""

import datetime
import decimal
import sys

import mysql.connector

host, port = sys.argv[1], int(sys.argv[2])


def same(what, got, want):
    if got != want:
        sys.exit(f"{what}: {got!r}, not {want!r}")


def mistake(cursor, text, number, state):
    """Judges the number and the SQLSTATE of a statement that must fail."""
    try:
        cursor.execute(text)
    except mysql.connector.Error as e:
        same(text, (e.errno, e.sqlstate), (number, state))
        return
    sys.exit(f"{text}: no error, where {number} is due")


c = mysql.connector.connect(host=host, port=port, user="root", password="", use_pure=True)
plain = c.cursor()
plain.execute("CREATE DATABASE IF NOT EXISTS connector")
c.database = "connector"
plain.execute("DROP TABLE IF EXISTS t")
plain.execute(
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL UNIQUE, amount DECIMAL(10,2), at DATETIME(6), body BLOB, ratio DOUBLE)"
)
at = datetime.datetime(2024, 2, 29, 23, 59, 58, 123456)
row = ("Grüße €", decimal.Decimal("12.30"), at, b"\0\1'\\\xff", 0.1)
cursor = c.cursor(prepared=True)
insert = "INSERT INTO t (name, amount, at, body, ratio) VALUES (%s, %s, %s, %s, %s)"
cursor.execute(insert, row)
same("the first id", cursor.lastrowid, 1)
cursor.execute(insert, ("nothing", None, None, None, None))
for i in range(50):
    cursor.execute(insert, (f"name {i}", i, at, bytes([i]), i / 8))
c.commit()
cursor = c.cursor(prepared=True)
cursor.execute("SELECT name, amount, at, body, ratio FROM t WHERE name = %s", ("Grüße €",))
same("read back", cursor.fetchall(), [row])
cursor.execute("SELECT name, amount, at, body, ratio FROM t WHERE name = %s", ("nothing",))
same("NULLs", cursor.fetchall(), [("nothing", None, None, None, None)])
cursor = c.cursor(prepared=True)
cursor.execute("SELECT COUNT(*), SUM(amount) FROM t WHERE id BETWEEN %s AND %s", (3, 52))
same("a sum", cursor.fetchall(), [(50, decimal.Decimal("1225.00"))])
cursor = c.cursor(prepared=True)
cursor.execute("DELETE FROM t WHERE id > %s", (2,))
same("rows deleted", cursor.rowcount, 50)
c.rollback()
plain.execute("SELECT COUNT(*) FROM t")
same("rows after the rollback", plain.fetchall(), [(52,)])
for text, number, state in (
    ("INSERT INTO t (name) VALUES ('nothing')", 1062, "23000"),
    ("INSERT INTO t (name) VALUES (NULL)", 1048, "23000"),
    ("SELECT * FROM none", 1146, "42S02"),
    ("SELECT none FROM t", 1054, "42S22"),
    ("SELEC 1", 1064, "42000"),
    ("CREATE TABLE t (id INT PRIMARY KEY)", 1050, "42S01"),
):
    mistake(plain, text, number, state)
    mistake(c.cursor(prepared=True), text, number, state)
c.close()
print("52 rows written and read, a rollback, 6 mistakes with their numbers in text and prepared")
