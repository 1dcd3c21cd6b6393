/*
** An open WAL of a database that is or may be the agent's: it is looked at for what a reader is handed out, and for frames written
** without the locks of the wal-index, which is locking_mode=EXCLUSIVE.
*/
#include "extension.h"

SQLITE_EXTENSION_INIT3

#define BELOW(file) (((Wal *)(file))->below)
#define CALL(file, method, ...) BELOW(file)->pMethods->method(BELOW(file), ##__VA_ARGS__)

static int wal_close(sqlite3_file *file)
{
	((Wal *)file)->main->wal = 0;
	return CALL(file, xClose);
}

static int wal_read(sqlite3_file *file, void *to, int n, sqlite3_int64 offset)
{
	File *f = ((Wal *)file)->main;
	if (f->unseen) {
		int rc = commit_saw(f);
		if (rc != SQLITE_OK)
			return rc;
	}
	return CALL(file, xRead, to, n, offset);
}

/* The first frame of a transaction without locks is where it can still be refused. */
static int wal_write(sqlite3_file *file, const void *from, int n, sqlite3_int64 offset)
{
	File *f = ((Wal *)file)->main;
	if (!f->locked && !f->unlocked && f->kind != KIND_PLAIN) {
		int rc = commit_claimed_gate(f);
		if (rc != SQLITE_OK)
			return rc;
		f->unlocked = f->kind != KIND_PLAIN;
	}
	return CALL(file, xWrite, from, n, offset);
}

static int wal_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	return CALL(file, xTruncate, size);
}

static int wal_sync(sqlite3_file *file, int flags)
{
	return CALL(file, xSync, flags);
}

static int wal_size(sqlite3_file *file, sqlite3_int64 *size)
{
	return CALL(file, xFileSize, size);
}

static int wal_lock(sqlite3_file *file, int level)
{
	return CALL(file, xLock, level);
}

static int wal_unlock(sqlite3_file *file, int level)
{
	return CALL(file, xUnlock, level);
}

static int wal_reserved(sqlite3_file *file, int *out)
{
	return CALL(file, xCheckReservedLock, out);
}

static int wal_control(sqlite3_file *file, int op, void *arg)
{
	return CALL(file, xFileControl, op, arg);
}

static int wal_sector(sqlite3_file *file)
{
	return CALL(file, xSectorSize);
}

static int wal_device(sqlite3_file *file)
{
	return CALL(file, xDeviceCharacteristics);
}

/* wal_methods makes w, whose file below is open, one that SQLite can use. A WAL is never mapped and has no wal-index of its own. */
void wal_methods(Wal *w)
{
	static const sqlite3_io_methods methods = {
		.iVersion = 1, .xClose = wal_close, .xRead = wal_read, .xWrite = wal_write, .xTruncate = wal_truncate, .xSync = wal_sync,
		.xFileSize = wal_size, .xLock = wal_lock, .xUnlock = wal_unlock, .xCheckReservedLock = wal_reserved,
		.xFileControl = wal_control, .xSectorSize = wal_sector, .xDeviceCharacteristics = wal_device,
	};
	w->base.pMethods = &methods;
	w->main->wal = 1;
	w->main->to_wal = 0;
}
