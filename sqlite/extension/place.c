/*
** Which file a connection has open. The agent compares device and inode, not text: a name may lead through links, and two views of one disk
** have two names for it.
*/
#include "extension.h"

#include <string.h>
#include <sys/stat.h>

SQLITE_EXTENSION_INIT3

/* inode is what path leads to; all 0 if there is nothing. */
static Inode inode(const char *path)
{
	Inode i = {0, 0};
	struct stat s;

	if (stat(path, &s) == 0) {
		i.dev = (uint64_t)s.st_dev;
		i.ino = (uint64_t)s.st_ino;
	}
	return i;
}

/* place_at_open notes the file that was opened, and the directory where SQLite puts its WAL. Another file that took its place in this moment
** makes the connection one that is astray. */
void place_at_open(File *f)
{
	char dir[PATH_MOST + 1];
	const char *slash = strrchr(f->name, '/');
	size_t n = slash ? (size_t)(slash - f->name) : 0;
	int moved = 0;

	f->file = inode(f->name);
	if (!slash)
		f->dir = inode(".");
	else if (n == 0)
		f->dir = inode("/");
	else if (n < sizeof dir) {
		memcpy(dir, f->name, n);
		dir[n] = 0;
		f->dir = inode(dir);
	}
	int rc = f->below->pMethods->xFileControl(f->below, SQLITE_FCNTL_HAS_MOVED, &moved);
	f->astray = rc == SQLITE_OK && moved;
}

/* place_astray reports whether the name means another file by now, or none: nobody will find what is written to this one. */
int place_astray(File *f)
{
	if (!f->astray && f->file.ino) { /* a VFS below may keep its files elsewhere */
		Inode now = inode(f->name);
		f->astray = now.dev != f->file.dev || now.ino != f->file.ino;
	}
	return f->astray;
}
