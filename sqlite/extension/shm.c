/*
** The locks of the wal-index: they tell when a transaction begins, when it has committed, and how far.
**
** A write transaction holds a read mark and the WRITE lock. WRITE alone is somebody who rebuilds the wal-index, which readers do too, or
** a checkpoint. Usually the mark comes first; SQLite with SQLITE_ENABLE_SETLK_TIMEOUT takes the lock first.
*/
#include "extension.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

enum {
	LOCK_WRITE = 0, /* the first of the eight locks */
	LOCK_RECOVER = 2,
	LOCK_MARK0 = 3, /* the first read mark */
	/* offsets in the wal-index header, numbers in the machine's byte order */
	AT_CHANGE = 8,
	AT_FRAME = 16,
	AT_SALT = 32,
};

static uint32_t at(const File *f, int offset)
{
	return __atomic_load_n((const volatile uint32_t *)(const volatile void *)(f->index + offset), __ATOMIC_ACQUIRE);
}

/* position reads where the WAL ends, as the wal-index says now. */
static Position position(const File *f)
{
	Position p;
	uint32_t salt[2] = {at(f, AT_SALT), at(f, AT_SALT + 4)};
	memcpy(p.salt, salt, sizeof p.salt);
	p.frame = at(f, AT_FRAME);
	return p;
}

int shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **out)
{
	File *f = (File *)file;
	int rc = f->below->pMethods->xShmMap(f->below, region, size, extend, out);
	if (region == 0 && rc == SQLITE_OK)
		f->index = *out;
	return rc;
}

int shm_unmap(sqlite3_file *file, int remove)
{
	File *f = (File *)file;
	f->index = NULL;
	f->marks = 0;
	return f->below->pMethods->xShmUnmap(f->below, remove);
}

void shm_barrier(sqlite3_file *file)
{
	File *f = (File *)file;
	f->below->pMethods->xShmBarrier(f->below);
}

static int pass(File *f, int offset, int n, int flags)
{
	return f->below->pMethods->xShmLock(f->below, offset, n, flags);
}

/* begun notes from where a write transaction goes on. */
static void begun(File *f)
{
	f->writing = 1;
	f->pending = 0;
	f->unlocked = 0;
	f->change = f->index ? at(f, AT_CHANGE) : 0;
}

/*
** agents reports whether it is the agent that has the WRITE lock, or is about to: only it has the RECOVER lock as well while nothing is recovered.
** Other writers are for the busy handler, which knows how long to wait: asking for the lock in their place once a millisecond took a third of
** the throughput of twenty threads on one core.
*/
static int agents(File *f)
{
	if (pass(f, LOCK_RECOVER, 1, SQLITE_SHM_LOCK | SQLITE_SHM_SHARED) != SQLITE_OK)
		return 1;
	pass(f, LOCK_RECOVER, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_SHARED);
	return 0;
}

static int write_lock(File *f, int offset, int n, int flags)
{
	int transaction = f->marks && !f->writing;
	if (transaction) {
		int rc = commit_claimed_gate(f);
		if (rc != SQLITE_OK)
			return rc;
	}
	int rc = pass(f, offset, n, flags);
	/* The agent has this lock for a few milliseconds when it starts the WAL anew, also where no busy handler would wait. */
	for (int tries = 0, agent = 1; rc == SQLITE_BUSY && transaction && agent && tries < 50; tries++) {
		agent = agents(f);
		if (agent)
			sqlite3_sleep(1);
		rc = pass(f, offset, n, flags); /* also if it was not: it may just have let go */
	}
	if (rc == SQLITE_OK) {
		f->locked = 1;
		if (transaction)
			begun(f);
	} else if (transaction) {
		claim_drop(f);
	}
	return rc;
}

/* write_unlock notes what was committed while nobody else can commit. A rollback leaves the header as it was. */
static int write_unlock(File *f, int offset, int n, int flags)
{
	if (f->writing) {
		if (f->index && at(f, AT_CHANGE) != f->change) {
			f->commit = f->seen = position(f);
			f->pending = f->has_seen = 1;
		}
		f->writing = 0;
		claim_drop(f);
	}
	f->locked = 0;
	return pass(f, offset, n, flags);
}

/* same_cache reports whether the connection may go on with pages it has in memory, which no read will show. */
static int same_cache(const File *f)
{
	if (!f->has_seen || !f->index)
		return 0;
	Position now = position(f);
	return now.frame == f->seen.frame && memcmp(now.salt, f->seen.salt, sizeof now.salt) == 0;
}

static int mark_lock(File *f, int offset, int n, int flags)
{
	int transaction = f->locked && !f->writing; /* the WRITE lock came first */
	int rc;

	if (transaction) {
		rc = commit_claimed_gate(f);
		if (rc != SQLITE_OK)
			return rc;
	} else if (!f->writing && !f->marks) {
		agent_hold(f);
		/* Waiting here for what comes from elsewhere would never end where others write: SQLite looks at the header again behind the lock
		** and begins anew if it has changed. Then it also drops its pages, and commit_saw is asked for the new ones. */
		if (f->read_stored && same_cache(f)) {
			Position p = f->seen;
			rc = commit_wait_stored(f, &p);
			if (rc != SQLITE_OK)
				return rc;
		}
	}
	rc = pass(f, offset, n, flags);
	if (rc == SQLITE_OK) {
		f->marks |= 1u << offset;
		if (transaction)
			begun(f);
		if (!f->writing && f->index) {
			f->seen = position(f);
			f->has_seen = 1;
			f->unseen = f->read_stored;
		}
	} else if (transaction) {
		claim_drop(f);
	}
	return rc;
}

/* plain_lock is shm_lock of a database that has no agent: it knows the read marks, so that a write transaction is one when an agent comes. */
static int plain_lock(File *f, int offset, int n, int flags)
{
	if (offset == LOCK_WRITE && flags == (SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE) && f->marks && found_later(f))
		return write_lock(f, offset, n, flags);
	int rc = pass(f, offset, n, flags);
	if (offset >= LOCK_MARK0 && flags == (SQLITE_SHM_LOCK | SQLITE_SHM_SHARED) && rc == SQLITE_OK)
		f->marks |= 1u << offset;
	else if (offset >= LOCK_MARK0 && flags == (SQLITE_SHM_UNLOCK | SQLITE_SHM_SHARED))
		f->marks &= ~(1u << offset);
	return rc;
}

int shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
	File *f = (File *)file;

	if (f->kind == KIND_PLAIN)
		return plain_lock(f, offset, n, flags);
	if (offset == LOCK_WRITE && flags == (SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE))
		return write_lock(f, offset, n, flags);
	if (offset == LOCK_WRITE && flags == (SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE))
		return write_unlock(f, offset, n, flags);
	if (offset >= LOCK_MARK0 && flags == (SQLITE_SHM_LOCK | SQLITE_SHM_SHARED))
		return mark_lock(f, offset, n, flags);
	if (offset >= LOCK_MARK0 && flags == (SQLITE_SHM_UNLOCK | SQLITE_SHM_SHARED)) {
		f->marks &= ~(1u << offset);
		if (!f->marks)
			f->unseen = 0;
	}
	return pass(f, offset, n, flags);
}
