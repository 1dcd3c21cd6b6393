/*
** Which databases are the agent's: what a connection says in its URI, what the agent has left beside the database, and what the
** environment says where only the agent knows.
*/
#include "extension.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

SQLITE_EXTENSION_INIT3

static int ack_of(const char *word, size_t n)
{
	if (n == 5 && memcmp(word, "local", n) == 0)
		return ACK_LOCAL;
	if (n == 7 && memcmp(word, "archive", n) == 0)
		return ACK_ARCHIVE;
	return ACK_ANY;
}

/* found_ack is the ack of that name, ACK_ANY for a word that is none. */
int found_ack(const char *word)
{
	return ack_of(word, strlen(word));
}

/* socket_at takes over the path of a socket, n bytes. One that the system has no room for leaves none, and why. */
static void socket_at(Agent *a, const char *path, size_t n)
{
	a->path[0] = 0;
	if (n == 0 || n >= sizeof a->path) {
		socket_why(a, "the path of the agent's socket is empty or longer than 107 bytes");
		return;
	}
	memcpy(a->path, path, n);
	a->path[n] = 0;
}

/* beside reads .NAME-holdfast/agent and reports whether it is there. What it cannot make sense of leaves a database that is the agent's,
** with nobody to ask: it can be read. */
static int beside(File *f)
{
	Agent *a = &f->agent;
	char path[PATH_MOST + 32], text[1024], why[sizeof a->why];
	const char *slash = strrchr(f->name, '/');
	int dir = slash ? (int)(slash - f->name) + 1 : 0;

	if (snprintf(path, sizeof path, "%.*s.%s-holdfast/agent", dir, f->name, f->name + dir) >= (int)sizeof path)
		return 0; /* longer than any path that the system opens */
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG))
		return 0;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n < 0) {
		snprintf(why, sizeof why, "its agent file cannot be read: %s", strerror(errno));
		socket_why(a, why);
	}
	if (fd >= 0)
		close(fd);
	a->ack = ACK_ARCHIVE;
	if (n < 0)
		return 1;
	text[n] = 0;
	int socket = 0, ack = 0;
	for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		if (strncmp(line, "socket ", 7) == 0) {
			socket = 1;
			socket_at(a, line + 7, (size_t)(end - line) - 7);
		} else if (strncmp(line, "ack ", 4) == 0) {
			ack = ack_of(line + 4, (size_t)(end - line) - 4);
		}
	}
	if (!socket || !ack) {
		a->path[0] = 0;
		socket_why(a, "its agent file is not one");
	} else {
		a->ack = ack;
	}
	return 1;
}

/* found_at_open decides what f is. It returns SQLITE_OK, or SQLITE_CANTOPEN for a URI that asks for what there is not. */
int found_at_open(File *f)
{
	Agent *a = &f->agent;
	const char *ack = sqlite3_uri_parameter(f->name, "holdfast_ack"), *path = sqlite3_uri_parameter(f->name, "holdfast_socket");
	const char *word;

	a->fd = -1;
	a->ack = ACK_ARCHIVE; /* where nobody has said anything, the more careful */
	if (ack) {
		f->want = ack_of(ack, strlen(ack));
		if (!f->want) {
			sqlite3_log(SQLITE_CANTOPEN, "holdfast: %s: holdfast_ack=%s in the URI; say local or archive", f->name, ack);
			return SQLITE_CANTOPEN;
		}
		f->demanded = f->want == ACK_ARCHIVE;
	}
	if (beside(f)) {
		f->kind = KIND_MANAGED;
		f->demanded |= a->ack == ACK_ARCHIVE;
	} else if (!path && (path = secure_getenv("HOLDFAST_SQLITE_SOCKET")) != NULL && *path) {
		f->kind = KIND_ASK;
		word = secure_getenv("HOLDFAST_SQLITE_ACK");
		if (word && ack_of(word, strlen(word)))
			a->ack = ack_of(word, strlen(word));
	} else if (path || f->demanded) {
		f->kind = KIND_ASK;
		if (!path)
			socket_why(a, "no agent has this database");
	}
	if (path && *path)
		socket_at(a, path, strlen(path));
	if (f->kind != KIND_PLAIN)
		claim_enter(f);
	f->found = now_ms();
	return SQLITE_OK;
}

/* found_later looks again, at most once a second, for the agent of a database that had none when it was opened, and reports whether there is
** one: an agent that begins while connections are open is for them too. A connection that has asked for archive by PRAGMA is refused without one. */
int found_later(File *f)
{
	if (f->demanded) {
		f->kind = KIND_ASK;
		f->unmanaged = 0;
		if (!f->agent.path[0])
			socket_why(&f->agent, "no agent has this database");
		claim_enter(f);
		return 1;
	}
	if (f->unmanaged)
		return 0;
	int64_t now = now_ms();
	if (now - f->found < 1000)
		return 0;
	f->found = now;
	if (!beside(f))
		return 0;
	f->kind = KIND_MANAGED;
	f->demanded |= f->agent.ack == ACK_ARCHIVE;
	claim_enter(f);
	return 1;
}

/* found_again reads where the agent is, before it is called anew: the next agent may have another socket, and a copy of a disk has the file of the
** agent it was copied from, which knows nothing of the copy. A database that had no such file may have one by now. */
void found_again(File *f)
{
	if (f->kind == KIND_PLAIN || sqlite3_uri_parameter(f->name, "holdfast_socket") || !beside(f))
		return;
	f->kind = KIND_MANAGED;
	f->demanded |= f->agent.ack == ACK_ARCHIVE;
}
