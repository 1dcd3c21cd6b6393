/*
** The VFS: it stands before the default one of the SQLite that loads it, under its own name and as the new default. Databases and their
** WALs are opened as files of ours in front of files of the VFS below; everything else goes straight to that.
*/
#include "extension.h"

#include <pthread.h>
#include <string.h>

SQLITE_EXTENSION_INIT1

#define EXPORT __attribute__((visibility("default")))
#define ROUNDED(size) (((size) + 15) / 16 * 16) /* the file below begins on a boundary that suits every type */

static sqlite3_vfs vfs; /* written once, before it is registered */
static sqlite3_vfs *below;

static int open_main(const char *name, sqlite3_file *file, int flags, int *out)
{
	File *f = (File *)file;

	memset(f, 0, sizeof *f);
	f->name = name;
	f->below = (sqlite3_file *)((char *)f + ROUNDED(sizeof *f));
	f->below->pMethods = NULL;
	int rc = below->xOpen(below, name, f->below, flags, out);
	if (rc == SQLITE_OK) {
		place_at_open(f);
		rc = found_at_open(f);
	}
	if (rc == SQLITE_OK)
		file_methods(f);
	else if (f->below->pMethods)
		f->below->pMethods->xClose(f->below);
	return rc;
}

static int open_wal(File *main, const char *name, sqlite3_file *file, int flags, int *out)
{
	Wal *w = (Wal *)file;

	memset(w, 0, sizeof *w);
	w->main = main;
	w->below = (sqlite3_file *)((char *)w + ROUNDED(sizeof *w));
	w->below->pMethods = NULL;
	int rc = below->xOpen(below, name, w->below, flags, out);
	if (rc == SQLITE_OK)
		wal_methods(w);
	else if (w->below->pMethods)
		w->below->pMethods->xClose(w->below);
	return rc;
}

static int vfs_open(sqlite3_vfs *v, const char *name, sqlite3_file *file, int flags, int *out)
{
	(void)v;
	if (name && (flags & SQLITE_OPEN_MAIN_DB))
		return open_main(name, file, flags, out);
	if (name && (flags & SQLITE_OPEN_WAL)) {
		File *f = (File *)sqlite3_database_file_object(name);
		/* Another VFS may stand before this one, with files of its own. */
		if (f && f->base.pMethods == &f->methods) /* also for PLAIN: an agent may come later */
			return open_wal(f, name, file, flags, out);
	}
	return below->xOpen(below, name, file, flags, out);
}

static int vfs_delete(sqlite3_vfs *v, const char *name, int sync)
{
	(void)v;
	return below->xDelete(below, name, sync);
}

static int vfs_access(sqlite3_vfs *v, const char *name, int flags, int *out)
{
	(void)v;
	return below->xAccess(below, name, flags, out);
}

static int vfs_full_pathname(sqlite3_vfs *v, const char *name, int n, char *out)
{
	(void)v;
	return below->xFullPathname(below, name, n, out);
}

static void *vfs_dl_open(sqlite3_vfs *v, const char *name)
{
	(void)v;
	return below->xDlOpen(below, name);
}

static void vfs_dl_error(sqlite3_vfs *v, int n, char *text)
{
	(void)v;
	below->xDlError(below, n, text);
}

static void (*vfs_dl_sym(sqlite3_vfs *v, void *handle, const char *name))(void)
{
	(void)v;
	return below->xDlSym(below, handle, name);
}

static void vfs_dl_close(sqlite3_vfs *v, void *handle)
{
	(void)v;
	below->xDlClose(below, handle);
}

static int vfs_randomness(sqlite3_vfs *v, int n, char *out)
{
	(void)v;
	return below->xRandomness(below, n, out);
}

static int vfs_sleep(sqlite3_vfs *v, int us)
{
	(void)v;
	return below->xSleep(below, us);
}

static int vfs_time(sqlite3_vfs *v, double *out)
{
	(void)v;
	return below->xCurrentTime(below, out);
}

static int vfs_last_error(sqlite3_vfs *v, int n, char *text)
{
	(void)v;
	return below->xGetLastError(below, n, text);
}

static int vfs_time64(sqlite3_vfs *v, sqlite3_int64 *out)
{
	(void)v;
	return below->xCurrentTimeInt64(below, out);
}

static int vfs_set_call(sqlite3_vfs *v, const char *name, sqlite3_syscall_ptr call)
{
	(void)v;
	return below->xSetSystemCall(below, name, call);
}

static sqlite3_syscall_ptr vfs_get_call(sqlite3_vfs *v, const char *name)
{
	(void)v;
	return below->xGetSystemCall(below, name);
}

static const char *vfs_next_call(sqlite3_vfs *v, const char *name)
{
	(void)v;
	return below->xNextSystemCall(below, name);
}

static int once(char **error)
{
	static const sqlite3_vfs ours = {
		.iVersion = 3, .zName = "holdfast", .xOpen = vfs_open, .xDelete = vfs_delete, .xAccess = vfs_access,
		.xFullPathname = vfs_full_pathname, .xDlOpen = vfs_dl_open, .xDlError = vfs_dl_error, .xDlSym = vfs_dl_sym,
		.xDlClose = vfs_dl_close, .xRandomness = vfs_randomness, .xSleep = vfs_sleep, .xCurrentTime = vfs_time,
		.xGetLastError = vfs_last_error, .xCurrentTimeInt64 = vfs_time64, .xSetSystemCall = vfs_set_call,
		.xGetSystemCall = vfs_get_call, .xNextSystemCall = vfs_next_call,
	};

	if (sqlite3_libversion_number() < 3035000) {
		*error = sqlite3_mprintf("holdfast: SQLite %s; 3.35.0 or later is needed", sqlite3_libversion());
		return SQLITE_ERROR;
	}
	below = sqlite3_vfs_find(NULL);
	if (!below || claim_prepare() != 0) {
		*error = sqlite3_mprintf("holdfast: this SQLite has no default VFS, or there is no memory");
		below = NULL;
		return SQLITE_ERROR;
	}
	size_t most = sizeof(File) > sizeof(Wal) ? sizeof(File) : sizeof(Wal);
	vfs = ours;
	vfs.iVersion = below->iVersion < 3 ? below->iVersion : 3;
	vfs.szOsFile = (int)ROUNDED(most) + below->szOsFile;
	vfs.mxPathname = below->mxPathname;
	vfs.pAppData = below;
	int rc = sqlite3_vfs_register(&vfs, 1);
	if (rc != SQLITE_OK)
		below = NULL;
	return rc;
}

/*
** The entry point. Connections that are opened from now on use the VFS; the one that loads does not. A second call changes nothing. One
** process can have two SQLites, which do not share memory or VFSs: the second is refused.
*/
static int load(char **error, const sqlite3_api_routines *api)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static const sqlite3_api_routines *home;
	int rc = SQLITE_OK;

	pthread_mutex_lock(&mutex);
	if (home && home != api) {
		*error = api->mprintf("holdfast: the extension is already loaded into another SQLite of this process");
		rc = SQLITE_ERROR;
	} else if (!home) {
		SQLITE_EXTENSION_INIT2(api);
		rc = once(error);
		if (rc == SQLITE_OK)
			home = api;
	}
	pthread_mutex_unlock(&mutex);
	return rc == SQLITE_OK ? SQLITE_OK_LOAD_PERMANENTLY : rc;
}

EXPORT int sqlite3_holdfastsqlite_init(sqlite3 *db, char **error, const sqlite3_api_routines *api)
{
	(void)db;
	return load(error, api);
}

EXPORT int sqlite3_extension_init(sqlite3 *db, char **error, const sqlite3_api_routines *api)
{
	(void)db;
	return load(error, api);
}
