/*
** Requests to the agent and their answers. What they mean for a transaction is in commit.c.
*/
#include "extension.h"

#include <stdio.h>
#include <string.h>

SQLITE_EXTENSION_INIT3

enum { COMMIT = 2, NOTE = 3, STATUS = 4, DONE = 130, TEXT = 131 };

/* drain takes over what the agent has sent, without waiting. */
static void drain(Agent *a)
{
	Answer none = {0};
	a->looked = now_ms();
	while (socket_receive(a, &none, 0) > 0)
		;
}

/*
** agent_ready makes sure that there is a connection and that its STATE is known, within ms. It returns 0, or -1: agent.why says why not.
*/
int agent_ready(File *f, int ms)
{
	Agent *a = &f->agent;
	int64_t deadline = now_ms() + ms;
	Answer none = {0};

	if (socket_mine(a))
		drain(a); /* the agent may have ended, or begun anew */
	if (a->fd < 0) {
		found_again(f);
		if (socket_hello(f, deadline) != 0)
			return -1;
	}
	while (!a->known) {
		int r = socket_receive(a, &none, deadline);
		if (r == 0) {
			socket_why(a, "the agent does not answer");
			socket_close(a);
		}
		if (r <= 0)
			return -1;
	}
	return 0;
}

/*
** agent_look takes over what the agent has sent if that was not looked at for so many ms (0: in any case). Where nobody waits for the
** agent, a missing one is looked for once a second, without waiting for it.
*/
void agent_look(File *f, int every)
{
	Agent *a = &f->agent;
	int64_t now = now_ms();

	if (a->fd >= 0) {
		if (every > 0 && now - a->looked < every)
			return;
		if (socket_mine(a)) {
			drain(a);
			return;
		}
	}
	if (now < a->again)
		return;
	a->again = now + 1000;
	found_again(f);
	socket_hello(f, 0); /* it may be missing: nobody waits for it */
}

/* agent_hold waits, before a transaction begins, until the agent has started the WAL anew, two seconds at most. */
void agent_hold(File *f)
{
	Agent *a = &f->agent;
	Answer none = {0};

	/* One that only reads asks for a socket once it is known to read much: readers keep a WAL from being started anew too. */
	if (a->fd < 0 && ++f->reads < 16)
		return;
	agent_look(f, 5);
	if (!a->hold)
		return;
	int64_t deadline = now_ms() + HOLD_MS;
	while (a->hold && socket_receive(a, &none, deadline) > 0)
		;
	a->hold = 0; /* in time or not: it is waited for once */
}

/* agent_wait_taking_over waits until the agent has taken the database over, for as long as a commit may take. */
void agent_wait_taking_over(File *f)
{
	Agent *a = &f->agent;
	Answer none = {0};
	int64_t deadline = now_ms() + a->timeout;
	while (a->refuse == REFUSE_TAKING_OVER && socket_receive(a, &none, deadline) > 0)
		;
}

/* answered waits for the answer to the last request. It returns 1, 0 if it did not come in time, -1 if the connection has ended. */
static int answered(Agent *a, int kind, Answer *answer, int64_t deadline)
{
	for (;;) {
		int r = socket_receive(a, answer, deadline);
		if (r <= 0)
			return r;
		if (answer->kind == kind && answer->seq == a->seq)
			return 1;
	}
}

/*
** agent_commit asks for a position (NULL: none, locking_mode=EXCLUSIVE) and waits for the answer, ms at most. It returns the code of
** DONE, or DONE_LOST without one: nothing is known about the position then.
*/
int agent_commit(File *f, const Position *p, int until, int flags, int ms)
{
	Agent *a = &f->agent;
	unsigned char packet[19] = {COMMIT};
	int64_t deadline = now_ms() + ms;
	char text[sizeof a->why] = "";
	Answer answer = {.text = text, .size = sizeof text};

	put32(packet + 1, ++a->seq);
	packet[5] = (unsigned char)until;
	packet[6] = (unsigned char)flags;
	if (p) {
		memcpy(packet + 7, p->salt, 8);
		put32(packet + 15, p->frame);
	}
	if (socket_send(a, packet, sizeof packet, deadline) == 0) {
		int r = answered(a, DONE, &answer, deadline);
		if (r > 0) {
			if (answer.code != DONE_OK && text[0])
				socket_why(a, text);
			return answer.code;
		}
		if (r < 0)
			return DONE_LOST;
	}
	/* What comes later through this socket would answer something nobody waits for any more. */
	if (a->fd >= 0) {
		socket_why(a, "the agent does not answer");
		socket_close(a);
	}
	return DONE_LOST;
}

/* agent_note tells the agent that something was committed for which nobody waits, ten times a second at most. */
void agent_note(File *f)
{
	static const unsigned char packet[1] = {NOTE};
	Agent *a = &f->agent;
	int64_t now = now_ms();

	if (now - a->noted < 100)
		return;
	agent_look(f, 0);
	if (a->fd < 0)
		return;
	a->noted = now;
	socket_send(a, packet, sizeof packet, 0); /* no room or no agent: it finds out by itself */
}

/* agent_status puts into text what the agent says about this database. It returns 0, or -1: agent.why says why not. */
int agent_status(File *f, char *text, size_t size)
{
	Agent *a = &f->agent;
	unsigned char packet[5] = {STATUS};
	int64_t deadline = now_ms() + ANSWER_MS;
	Answer answer = {.text = text, .size = size};

	if (agent_ready(f, ANSWER_MS) != 0)
		return -1;
	put32(packet + 1, ++a->seq);
	int r = socket_send(a, packet, sizeof packet, deadline);
	if (r == 0)
		r = answered(a, TEXT, &answer, deadline) - 1;
	if (r != 0 && a->fd >= 0) {
		socket_why(a, "the agent does not answer");
		socket_close(a);
	}
	return r == 0 ? 0 : -1;
}
