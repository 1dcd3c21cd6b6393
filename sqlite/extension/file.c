/*
** An open database: what SQLite calls, passed to the file below, and looked at where it tells something. The locks of the wal-index
** are in shm.c.
*/
#include "extension.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

#define BELOW(file) (((File *)(file))->below)
#define CALL(file, method, ...) BELOW(file)->pMethods->method(BELOW(file), ##__VA_ARGS__)

/* file_ack is what commits of this connection wait for. */
int file_ack(const File *f)
{
	return f->want ? f->want : f->agent.ack;
}

const char *ack_word(int ack)
{
	return ack == ACK_ARCHIVE ? "archive" : "local";
}

static int file_close(sqlite3_file *file)
{
	File *f = (File *)file;
	claim_drop(f);
	claim_leave(f);
	socket_close(&f->agent);
	return CALL(file, xClose);
}

static int file_read(sqlite3_file *file, void *to, int n, sqlite3_int64 offset)
{
	File *f = (File *)file;
	if (f->unseen) {
		int rc = commit_saw(f);
		if (rc != SQLITE_OK)
			return rc;
	}
	return CALL(file, xRead, to, n, offset);
}

static int file_write(sqlite3_file *file, const void *from, int n, sqlite3_int64 offset)
{
	return CALL(file, xWrite, from, n, offset);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	return CALL(file, xTruncate, size);
}

static int file_sync(sqlite3_file *file, int flags)
{
	return CALL(file, xSync, flags);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
	return CALL(file, xFileSize, size);
}

/*
** A rollback journal's transaction begins with RESERVED; in WAL mode that lock is not used. (A hot journal is rolled back under
** EXCLUSIVE, without it, by whoever only wants to read.)
*/
static int file_lock(sqlite3_file *file, int level)
{
	File *f = (File *)file;
	int begins = level == SQLITE_LOCK_RESERVED && !f->reserved && (f->kind != KIND_PLAIN || found_later(f));

	if (level == SQLITE_LOCK_SHARED && f->takeover == TAKEOVER_MET) {
		agent_wait_taking_over(f);
		f->takeover = TAKEOVER_WAITED;
	}
	if (begins) {
		if (f->takeover == TAKEOVER_NONE)
			f->takeover = TAKEOVER_MET;
		int rc = commit_claimed_gate(f);
		if (rc != SQLITE_OK)
			return rc;
		begins = f->kind != KIND_PLAIN;
		if (begins && file_ack(f) == ACK_ARCHIVE && !f->to_wal) {
			claim_drop(f);
			sqlite3_log(SQLITE_READONLY, "holdfast: %s is not written to: it is not in WAL mode; PRAGMA journal_mode=WAL, once, "
				"or ask for holdfast_ack=local", f->name);
			return SQLITE_READONLY;
		}
	}
	int rc = CALL(file, xLock, level);
	if (begins) {
		if (rc == SQLITE_OK)
			f->reserved = 1;
		else
			claim_drop(f);
	}
	return rc;
}

static int file_unlock(sqlite3_file *file, int level)
{
	File *f = (File *)file;
	if (level < SQLITE_LOCK_RESERVED) {
		if (f->reserved)
			f->to_wal = 0;
		f->reserved = 0;
		claim_drop(f);
	}
	if (level == SQLITE_LOCK_NONE && f->takeover == TAKEOVER_WAITED)
		f->takeover = TAKEOVER_NONE;
	return CALL(file, xUnlock, level);
}

static int file_reserved(sqlite3_file *file, int *out)
{
	return CALL(file, xCheckReservedLock, out);
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
	File *f = (File *)file;
	int rc;

	switch (op) {
	case SQLITE_FCNTL_PDB:
		f->db = arg;
		break;
	case SQLITE_FCNTL_PRAGMA:
		rc = pragma_call(f, arg);
		if (rc != SQLITE_NOTFOUND)
			return rc;
		break;
	case SQLITE_FCNTL_COMMIT_PHASETWO:
		rc = CALL(file, xFileControl, op, arg);
		if (rc != SQLITE_OK && rc != SQLITE_NOTFOUND)
			return rc;
		return commit_phase_two(f);
	case SQLITE_FCNTL_VFSNAME:
		rc = CALL(file, xFileControl, op, arg);
		if (rc == SQLITE_OK)
			*(char **)arg = sqlite3_mprintf("holdfast/%z", *(char **)arg);
		return rc;
	}
	return CALL(file, xFileControl, op, arg);
}

static int file_sector(sqlite3_file *file)
{
	return CALL(file, xSectorSize);
}

static int file_device(sqlite3_file *file)
{
	return CALL(file, xDeviceCharacteristics);
}

static int file_fetch(sqlite3_file *file, sqlite3_int64 offset, int n, void **page)
{
	File *f = (File *)file;
	if (f->unseen) {
		int rc = commit_saw(f);
		if (rc != SQLITE_OK) {
			*page = NULL;
			return rc;
		}
	}
	return CALL(file, xFetch, offset, n, page);
}

static int file_unfetch(sqlite3_file *file, sqlite3_int64 offset, void *page)
{
	return CALL(file, xUnfetch, offset, page);
}

/* file_methods gives f what the file below it can do, and no more. */
void file_methods(File *f)
{
	static const sqlite3_io_methods all = {
		3, file_close, file_read, file_write, file_truncate, file_sync, file_size, file_lock, file_unlock, file_reserved, file_control,
		file_sector, file_device, shm_map, shm_lock, shm_barrier, shm_unmap, file_fetch, file_unfetch,
	};
	const sqlite3_io_methods *below = f->below->pMethods;

	f->methods = all;
	if (below->iVersion < 3)
		f->methods.iVersion = below->iVersion;
	else if (!below->xFetch)
		f->methods.iVersion = 2;
	if (below->iVersion >= 2 && !below->xShmMap) {
		f->methods.xShmMap = NULL; /* SQLite asks by it whether there can be a WAL */
		f->methods.xShmLock = NULL;
		f->methods.xShmBarrier = NULL;
		f->methods.xShmUnmap = NULL;
	}
	f->base.pMethods = &f->methods;
}
