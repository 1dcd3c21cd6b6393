"""PyMySQL against the server of the conformance run: text.py HOST PORT. Its parameters go into the statement's text, and autocommit is off."""

import datetime
import decimal
import sys

import pymysql

host, port = sys.argv[1], int(sys.argv[2])


def same(what, got, want):
    if got != want:
        sys.exit(f"{what}: {got!r}, not {want!r}")


def mistake(cursor, text, number, state):
    """Judges the number and the SQLSTATE of a statement that must fail. PyMySQL shows the state in its raw packet alone."""
    try:
        cursor.execute(text)
    except pymysql.MySQLError as e:
        same(text, e.args[0], number)
        same(f"{text}, SQLSTATE", states[-1], state)
        return
    sys.exit(f"{text}: no error, where {number} is due")


states = []
raise_error = pymysql.err.raise_mysql_exception


def note_state(data):
    states.append(data[4:9].decode())
    raise_error(data)


pymysql.err.raise_mysql_exception = note_state

c = pymysql.connect(host=host, port=port, user="root", password="", charset="utf8mb4")
with c.cursor() as cursor:
    cursor.execute("CREATE DATABASE IF NOT EXISTS pymysql")
    c.select_db("pymysql")
    cursor.execute("DROP TABLE IF EXISTS t")
    cursor.execute(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL UNIQUE, amount DECIMAL(10,2), at DATETIME(6), body BLOB, ratio DOUBLE)"
    )
    at = datetime.datetime(2024, 2, 29, 23, 59, 58, 123456)
    row = ("Grüße €", decimal.Decimal("12.30"), at, b"\0\1'\\\xff", 0.1)
    insert = "INSERT INTO t (name, amount, at, body, ratio) VALUES (%s, %s, %s, %s, %s)"
    cursor.execute(insert, row)
    same("the first id", cursor.lastrowid, 1)
    cursor.executemany(insert, [("nothing", None, None, None, None), ("more", 1, at, b"", 0)])
    same("rows of executemany", cursor.rowcount, 2)
    c.commit()
    cursor.execute("SELECT name, amount, at, body, ratio FROM t WHERE name = %s", ("Grüße €",))
    same("read back", cursor.fetchone(), row)
    cursor.execute("SELECT name, amount, at, body, ratio FROM t WHERE name = %s", ("nothing",))
    same("NULLs", cursor.fetchone(), ("nothing", None, None, None, None))
    cursor.execute("INSERT INTO t (name) VALUES ('lost')")
    c.rollback()
    cursor.execute("SELECT COUNT(*) FROM t")
    same("rows after the rollback", cursor.fetchone(), (3,))
    for text, number, state in (
        ("INSERT INTO t (name) VALUES ('more')", 1062, "23000"),
        ("INSERT INTO t (name) VALUES (NULL)", 1048, "23000"),
        ("SELECT * FROM none", 1146, "42S02"),
        ("SELECT none FROM t", 1054, "42S22"),
        ("SELEC 1", 1064, "42000"),
        ("CREATE TABLE t (id INT PRIMARY KEY)", 1050, "42S01"),
    ):
        mistake(cursor, text, number, state)
c.ping(reconnect=False)
c.close()
print("3 rows written and read, a rollback, 6 mistakes with their numbers")
