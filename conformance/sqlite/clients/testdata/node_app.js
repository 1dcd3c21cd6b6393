// A program on better-sqlite3: notes that are created, updated, rolled back and read. It brings an SQLite of its own, linked into it.
'use strict';
const assert = require('assert');
const Database = require('better-sqlite3');

const loader = new Database(':memory:');
loader.loadExtension(process.env.HOLDFAST_SQLITE_SO);
loader.close();

let acknowledged = 0;
const db = new Database(process.argv[2]);
assert.strictEqual(db.pragma('journal_mode=WAL', { simple: true }), 'wal');
assert.strictEqual(db.pragma('holdfast_ack', { simple: true }), 'archive');
db.exec('create table notes (id integer primary key, text)');
acknowledged++;
const create = db.prepare('insert into notes (text) values (?)');
for (let i = 0; i < 20; i++) {
  create.run(`note ${i}`);
  acknowledged++;
}
db.prepare('update notes set text = ? where text = ?').run('changed', 'note 3');
acknowledged++;
db.transaction(() => {
  create.run('one of two');
  create.run('two of two');
})();
acknowledged++;
assert.throws(() => db.transaction(() => {
  create.run('never');
  throw new Error('back');
})(), /back/);
db.transaction(() => {
  create.run('kept');
  assert.throws(() => db.transaction(() => { // a savepoint
    create.run('never');
    throw new Error('back');
  })(), /back/);
})();
acknowledged++;
db.prepare('delete from notes where text = ?').run('note 5');
acknowledged++;
assert.strictEqual(db.prepare('select count(*) from notes').pluck().get(), 22);
assert.strictEqual(db.prepare("select count(*) from notes where text = 'never'").pluck().get(), 0);
const version = db.prepare('select sqlite_version()').pluck().get();
db.close();
console.log(`${acknowledged} better-sqlite3 ${require('better-sqlite3/package.json').version}, SQLite ${version}`);
