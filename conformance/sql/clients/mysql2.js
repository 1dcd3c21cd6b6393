// mysql2 against the server of the conformance run: mysql2.js HOST PORT. query() sends text, execute() has the server prepare.
'use strict';
const assert = require('node:assert');
const mysql = require('mysql2/promise');

const [host, port] = process.argv.slice(2);

async function main() {
  const c = await mysql.createConnection({ host, port: Number(port), user: 'root', password: '', dateStrings: true });
  await c.query('CREATE DATABASE IF NOT EXISTS node');
  await c.changeUser({ database: 'node' });
  await c.query('DROP TABLE IF EXISTS t');
  await c.query('CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL UNIQUE, amount DECIMAL(10,2), at DATETIME(6), body BLOB, ratio DOUBLE)');
  const row = { name: 'Grüße €', amount: '12.30', at: '2024-02-29 23:59:58.123456', body: Buffer.from([0, 1, 39, 92, 255]), ratio: 0.1 };
  const insert = 'INSERT INTO t (name, amount, at, body, ratio) VALUES (?, ?, ?, ?, ?)';
  const [first] = await c.execute(insert, Object.values(row));
  assert.strictEqual(first.insertId, 1);
  assert.strictEqual(first.affectedRows, 1);
  const [second] = await c.query(insert, ['nothing', null, null, null, null]);
  assert.strictEqual(second.insertId, 2);
  const select = 'SELECT name, amount, at, body, ratio FROM t WHERE name = ?';
  for (const run of [c.query.bind(c), c.execute.bind(c)]) {
    assert.deepStrictEqual({ ...(await run(select, [row.name]))[0][0] }, row);
    assert.deepStrictEqual({ ...(await run(select, ['nothing']))[0][0] }, { name: 'nothing', amount: null, at: null, body: null, ratio: null });
  }
  await c.beginTransaction();
  await c.execute('DELETE FROM t WHERE id = ?', [1]);
  await c.rollback();
  assert.strictEqual((await c.query('SELECT COUNT(*) AS n FROM t'))[0][0].n, 2);
  const mistakes = [
    ["INSERT INTO t (name) VALUES ('nothing')", 1062, '23000'],
    ['INSERT INTO t (name) VALUES (NULL)', 1048, '23000'],
    ['SELECT * FROM none', 1146, '42S02'],
    ['SELECT none FROM t', 1054, '42S22'],
    ['SELEC 1', 1064, '42000'],
    ['CREATE TABLE t (id INT PRIMARY KEY)', 1050, '42S01'],
  ];
  for (const [text, errno, sqlState] of mistakes) {
    for (const run of [c.query.bind(c), c.execute.bind(c)]) {
      await assert.rejects(run(text), (e) => {
        assert.deepStrictEqual([e.errno, e.sqlState], [errno, sqlState], text);
        return true;
      });
    }
  }
  await c.ping();
  await c.end();
  console.log('2 rows written and read in text and prepared, a rollback, 6 mistakes with their numbers');
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
