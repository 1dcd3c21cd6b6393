/*
** Packets between this process and the agent. Every buffer is on the stack and every wait has a deadline: this runs inside a commit.
*/
#include "extension.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

SQLITE_EXTENSION_INIT3

enum { HELLO = 1, STATE = 129, DONE = 130, TEXT = 131 };
enum { VERSION = 2, HELLO_HEAD = 39 };

/* now_ms is a clock for deadlines and for how often something is done. The coarse one costs no system call; it moves every few ms. */
int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void put32(unsigned char *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (unsigned char)(v >> (8 * i));
}

void put64(unsigned char *p, uint64_t v)
{
	put32(p, (uint32_t)v);
	put32(p + 4, (uint32_t)(v >> 32));
}

static uint32_t get32(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* socket_why keeps the first line of text. */
void socket_why(Agent *a, const char *text)
{
	snprintf(a->why, sizeof a->why, "%s", text);
	for (char *c = a->why; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
}

void socket_close(Agent *a)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
	a->known = 0;
	a->hold = 0;
}

/* socket_mine reports whether there is a socket that this process opened. A child's copy of its parent's is closed, which the parent
** does not notice. */
int socket_mine(Agent *a)
{
	if (a->fd < 0)
		return 0;
	if (a->pid != getpid())
		socket_close(a);
	return a->fd >= 0;
}

/* ready waits for events on the socket until the deadline and reports whether they came. */
static int ready(Agent *a, short events, int64_t deadline)
{
	for (;;) {
		int64_t left = deadline - now_ms();
		struct pollfd p = {.fd = a->fd, .events = events};
		int n = poll(&p, 1, left > 0 ? (int)left : 0);
		if (n > 0)
			return 1;
		if (n == 0 && left <= 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return 0;
	}
}

/* lost ends a connection; a later call opens another. */
static int lost(Agent *a, const char *what)
{
	char text[sizeof a->why];
	snprintf(text, sizeof text, "%s", what);
	socket_why(a, text);
	socket_close(a);
	return -1;
}

/* ended is lost for a connection that the agent has closed. */
static int ended(Agent *a)
{
	return lost(a, a->known ? "the agent closed the connection" :
		"the agent closed the connection without an answer, as one that is older than this extension does; start a newer agent");
}

/* socket_send sends one packet. It returns 0, 1 if there was no room until the deadline (0: at once), -1 if the connection has ended. */
int socket_send(Agent *a, const unsigned char *packet, size_t n, int64_t deadline)
{
	for (;;) {
		ssize_t sent = send(a->fd, packet, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent == (ssize_t)n)
			return 0;
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)) {
			if (deadline == 0 || !ready(a, POLLOUT, deadline))
				return 1;
			continue;
		}
		return ended(a);
	}
}

/* socket_hello connects and introduces itself. The agent's STATE comes later. It returns 0, or -1 with why. */
int socket_hello(File *f, int64_t deadline)
{
	Agent *a = &f->agent;
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	unsigned char packet[HELLO_HEAD + PATH_MOST];
	size_t n = strlen(f->name);
	char why[sizeof a->why];

	if (!a->path[0])
		return -1; /* why says it already */
	if (n > PATH_MOST)
		return lost(a, "the path of the database is longer than 4096 bytes");
	memcpy(to.sun_path, a->path, strlen(a->path) + 1);
	if ((a->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0) {
		snprintf(why, sizeof why, "no socket: %s", strerror(errno));
		return lost(a, why);
	}
	a->pid = getpid();
	while (connect(a->fd, (struct sockaddr *)&to, sizeof to) != 0) {
		if (errno == EINTR)
			continue;
		/* EAGAIN: the agent has more connections waiting than it takes. */
		if (errno == EAGAIN && now_ms() < deadline) {
			poll(NULL, 0, 5);
			continue;
		}
		snprintf(why, sizeof why, "no agent at %.100s: %s", a->path, strerror(errno));
		return lost(a, why);
	}
	packet[0] = HELLO;
	packet[1] = VERSION;
	packet[2] = (unsigned char)f->want;
	put32(packet + 3, (uint32_t)a->pid);
	put64(packet + 7, f->file.dev);
	put64(packet + 15, f->file.ino);
	put64(packet + 23, f->dir.dev);
	put64(packet + 31, f->dir.ino);
	memcpy(packet + HELLO_HEAD, f->name, n);
	if (socket_send(a, packet, HELLO_HEAD + n, deadline) != 0)
		return lost(a, "the agent takes no message");
	return 0;
}

/* state takes over a STATE; it returns -1 if that is not one. */
static int state(Agent *a, const unsigned char *p, size_t n)
{
	if (n < 9 || p[1] > 1)
		return -1;
	if (!p[1]) { /* the rest says nothing about a database that is not the agent's */
		a->known = 1;
		a->managed = a->refuse = a->hold = 0;
		return 0;
	}
	if (p[2] < ACK_LOCAL || p[2] > ACK_ARCHIVE || p[3] > REFUSE_TAKING_OVER || p[4] > 1)
		return -1;
	a->known = a->managed = 1;
	a->ack = p[2];
	a->refuse = p[3];
	a->hold = p[4];
	a->timeout = get32(p + 5);
	if (a->timeout > 3600000)
		a->timeout = 3600000; /* poll counts milliseconds in an int */
	if (!a->refuse)
		a->doubt = 0;
	char text[sizeof a->why];
	snprintf(text, sizeof text, "%.*s", (int)(n - 9 < sizeof text ? n - 9 : sizeof text - 1), (const char *)p + 9);
	socket_why(a, text);
	return 0;
}

/*
** socket_receive takes one packet, waiting for it until the deadline (0: not at all). It returns 1 for one, 0 for none in time, -1 if
** the connection has ended, be it by a packet that is not one of ours. A STATE is taken over here; what else it was is in answer.
*/
int socket_receive(Agent *a, Answer *answer, int64_t deadline)
{
	unsigned char p[9 + TEXT_MOST];
	ssize_t got;

	for (;;) {
		got = recv(a->fd, p, sizeof p, MSG_DONTWAIT | MSG_TRUNC);
		if (got >= 0)
			break;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != EWOULDBLOCK)
			return ended(a);
		if (deadline == 0 || !ready(a, POLLIN, deadline))
			return 0;
	}
	size_t n = (size_t)got, head = 0;
	if (n == 0)
		return ended(a);
	if (n > sizeof p)
		return lost(a, "the agent sent a message that is too long");
	answer->kind = p[0];
	if (p[0] == STATE) {
		if (state(a, p, n) != 0)
			return lost(a, "the agent sent a STATE that is not one");
		return 1;
	}
	if (p[0] == DONE && n >= 6) {
		answer->seq = get32(p + 1);
		answer->code = p[5];
		head = 6;
	} else if (p[0] == TEXT && n >= 5) {
		answer->seq = get32(p + 1);
		head = 5;
	} else {
		return lost(a, "the agent sent a message that this extension does not know");
	}
	if (answer->text && answer->size > 0) {
		size_t most = n - head < answer->size - 1 ? n - head : answer->size - 1;
		memcpy(answer->text, p + head, most);
		answer->text[most] = 0;
	}
	return 1;
}
