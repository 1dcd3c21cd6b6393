/*
** An SQLite VFS that takes 5 to 50 ms for every write, and as long for a sync: a disk that is slow. It is loaded
** before the extension, which then is above it. All else goes to the VFS that was the default.
*/
#define _GNU_SOURCE
#include <sqlite3ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

SQLITE_EXTENSION_INIT1

typedef struct Slow {
	sqlite3_file base;
	sqlite3_file *real; /* behind it */
} Slow;

static sqlite3_vfs vfs, *below;

#define REAL(f) (((Slow *)(f))->real)
#define CALL(f, what, ...) (REAL(f)->pMethods->what(REAL(f), ##__VA_ARGS__))

static void wait_a_while(void)
{
	static __thread unsigned seed;
	usleep(5000 + (unsigned)rand_r(&seed) % 45000);
}

static int s_close(sqlite3_file *f)
{
	int rc = CALL(f, xClose);
	f->pMethods = NULL;
	return rc;
}
static int s_read(sqlite3_file *f, void *b, int n, sqlite3_int64 at) { return CALL(f, xRead, b, n, at); }
static int s_write(sqlite3_file *f, const void *b, int n, sqlite3_int64 at)
{
	wait_a_while();
	return CALL(f, xWrite, b, n, at);
}
static int s_truncate(sqlite3_file *f, sqlite3_int64 n) { return CALL(f, xTruncate, n); }
static int s_sync(sqlite3_file *f, int how)
{
	wait_a_while();
	return CALL(f, xSync, how);
}
static int s_size(sqlite3_file *f, sqlite3_int64 *n) { return CALL(f, xFileSize, n); }
static int s_lock(sqlite3_file *f, int l) { return CALL(f, xLock, l); }
static int s_unlock(sqlite3_file *f, int l) { return CALL(f, xUnlock, l); }
static int s_reserved(sqlite3_file *f, int *yes) { return CALL(f, xCheckReservedLock, yes); }
static int s_control(sqlite3_file *f, int op, void *arg) { return CALL(f, xFileControl, op, arg); }
static int s_sector(sqlite3_file *f) { return CALL(f, xSectorSize); }
static int s_device(sqlite3_file *f) { return CALL(f, xDeviceCharacteristics); }
static int s_shm_map(sqlite3_file *f, int i, int n, int extend, void volatile **p) { return CALL(f, xShmMap, i, n, extend, p); }
static int s_shm_lock(sqlite3_file *f, int at, int n, int flags) { return CALL(f, xShmLock, at, n, flags); }
static void s_shm_barrier(sqlite3_file *f) { CALL(f, xShmBarrier); }
static int s_shm_unmap(sqlite3_file *f, int del) { return CALL(f, xShmUnmap, del); }

static const sqlite3_io_methods methods = {2, s_close, s_read, s_write, s_truncate, s_sync, s_size, s_lock, s_unlock, s_reserved, s_control,
	s_sector, s_device, s_shm_map, s_shm_lock, s_shm_barrier, s_shm_unmap, NULL, NULL};

static int s_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
	Slow *s = (Slow *)f;
	(void)v;
	s->real = (sqlite3_file *)(s + 1);
	memset(s->real, 0, (size_t)below->szOsFile);
	s->base.pMethods = NULL;
	int rc = below->xOpen(below, name, s->real, flags, out);
	if (s->real->pMethods)
		s->base.pMethods = &methods;
	return rc;
}

int sqlite3_slow_init(sqlite3 *db, char **error, const sqlite3_api_routines *api)
{
	(void)db;
	(void)error;
	SQLITE_EXTENSION_INIT2(api);
	below = sqlite3_vfs_find(NULL);
	vfs = *below; /* its other functions are given the VFS and use its pAppData, which is the same */
	vfs.zName = "slow";
	vfs.szOsFile = below->szOsFile + (int)sizeof(Slow);
	vfs.pNext = NULL;
	vfs.xOpen = s_open;
	int rc = sqlite3_vfs_register(&vfs, 1);
	return rc == SQLITE_OK ? SQLITE_OK_LOAD_PERMANENTLY : rc;
}
