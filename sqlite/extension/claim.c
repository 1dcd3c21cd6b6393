/*
** Which open databases are part of a write transaction, and of which connection's. A commit over two of them that are stored one
** after the other could come back in halves, so the second is refused before it begins.
*/
#include "extension.h"

#include <pthread.h>

SQLITE_EXTENSION_INIT3

/* A mutex of the operating system and not of SQLite: only for this one can a child be given an unlocked copy. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static File *files;

static void lock(void)
{
	pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

/* claim_prepare keeps the mutex free in children of this process. It returns 0, or not if there is no memory. */
int claim_prepare(void)
{
	return pthread_atfork(lock, unlock, unlock);
}

void claim_enter(File *f)
{
	lock();
	f->link = &files;
	f->next = files;
	if (files)
		files->link = &f->next;
	files = f;
	unlock();
}

void claim_leave(File *f)
{
	if (!f->link)
		return;
	lock();
	*f->link = f->next;
	if (f->next)
		f->next->link = f->link;
	f->link = NULL;
	unlock();
}

/*
** claim_take makes the file part of its connection's write transaction. It returns 0, or -1 if another database of the connection
** already is and one of them waits for the archive.
*/
int claim_take(File *f)
{
	sqlite3 *db = f->db ? *f->db : NULL;
	int rc = 0;

	if (!db || !f->link)
		return 0;
	lock();
	for (File *g = files; g; g = g->next)
		/* Files of one connection are used by one thread, so the rest of g may be read once its claim says that it is ours. */
		if (g != f && g->claim == db && g->kind == KIND_MANAGED && (file_ack(f) == ACK_ARCHIVE || file_ack(g) == ACK_ARCHIVE))
			rc = -1;
	if (rc == 0)
		f->claim = db;
	unlock();
	return rc;
}

void claim_drop(File *f)
{
	if (!f->claim)
		return;
	lock();
	f->claim = NULL;
	unlock();
}
