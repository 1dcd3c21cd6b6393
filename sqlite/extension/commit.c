/*
** Where a transaction is let begin, and where its commit waits. What cannot be stored is refused before it begins (SQLITE_READONLY),
** because an error after the commit cannot take it back: that one is SQLITE_IOERR, and the rows stay.
*/
#include "extension.h"

#include <string.h>

SQLITE_EXTENSION_INIT3

/* refused writes into SQLite's log why a transaction does not begin and what to do. */
static int refused(File *f, const char *why, const char *next)
{
	sqlite3_log(SQLITE_READONLY, "holdfast: %s is not written to: %s; %s", f->name, why, next);
	return SQLITE_READONLY;
}

/* settle draws the conclusion from a STATE that says whose this database is. */
static void settle(File *f)
{
	Agent *a = &f->agent;

	if (!a->known)
		return;
	if (a->managed) {
		f->kind = KIND_MANAGED;
	} else if (f->demanded) {
		socket_why(a, "the agent does not have this database");
	} else {
		f->kind = KIND_PLAIN;
		f->unmanaged = 1;
		claim_leave(f);
		socket_close(a);
	}
}

/*
** commit_ask finds out whose database this is, where only the agent knows it. It returns 0, or -1 if the agent cannot be asked; under
** local that is tried once a second, and nobody waits long for it.
*/
int commit_ask(File *f)
{
	Agent *a = &f->agent;
	int local = file_ack(f) == ACK_LOCAL;

	if (f->kind != KIND_ASK)
		return 0;
	if (local) {
		if (now_ms() < a->again)
			return -1;
		a->again = now_ms() + 1000;
	}
	if (agent_ready(f, local ? 500 : ANSWER_MS) != 0)
		return -1;
	settle(f);
	return 0;
}

/* astray refuses, under archive, a transaction on a file that nobody finds any more; under local that is said once. */
static int astray(File *f)
{
	static const char why[] = "its name means another file than when it was opened, or none", next[] = "open the database anew";

	if (file_ack(f) == ACK_ARCHIVE)
		return refused(f, why, next);
	if (!f->said)
		sqlite3_log(SQLITE_WARNING, "holdfast: what is written to %s is stored nowhere: %s; %s", f->name, why, next);
	f->said = 1;
	return SQLITE_OK;
}

/*
** commit_gate lets a write transaction begin: SQLITE_OK, SQLITE_READONLY, or SQLITE_BUSY for one that must let go of its locks before it
** waits for a takeover.
*/
int commit_gate(File *f)
{
	static const char start[] = "start the agent (holdfast sqlite run, holdfast sqlite replicate), or ask for holdfast_ack=local";
	Agent *a = &f->agent;

	commit_ask(f); /* without an answer what is known before asking decides below */
	if (f->kind == KIND_PLAIN)
		return SQLITE_OK;
	if (place_astray(f) && astray(f) != SQLITE_OK)
		return SQLITE_READONLY;
	if (file_ack(f) == ACK_LOCAL) {
		if (f->kind == KIND_ASK)
			return SQLITE_OK;
		agent_look(f, 10);
		settle(f);
		if (f->kind == KIND_MANAGED && a->known && a->refuse == REFUSE_FENCED)
			return refused(f, a->why[0] ? a->why : "another agent has taken the database over", "open the database where that agent is");
		if (file_ack(f) == ACK_LOCAL || f->kind == KIND_PLAIN)
			return SQLITE_OK;
	}
	if (agent_ready(f, ANSWER_MS) != 0)
		return refused(f, a->why, start);
	settle(f);
	if (f->kind == KIND_PLAIN || file_ack(f) == ACK_LOCAL)
		return SQLITE_OK;
	if (a->refuse == REFUSE_TAKING_OVER && f->takeover == TAKEOVER_MET)
		return SQLITE_BUSY;
	if (a->refuse == REFUSE_TAKING_OVER && f->takeover == TAKEOVER_NONE)
		agent_wait_taking_over(f);
	if (!a->known)
		return refused(f, a->why, start);
	if (f->demanded && !a->managed)
		return refused(f, a->why, "let the agent have it, or do without holdfast_ack=archive");
	switch (a->refuse) {
	case REFUSE_NO:
		break;
	case REFUSE_FENCED:
		return refused(f, a->why[0] ? a->why : "another agent has taken the database over", "open the database where that agent is");
	case REFUSE_STOPS:
		return refused(f, a->why[0] ? a->why : "the agent stops", start);
	default:
		return refused(f, a->why[0] ? a->why : "the agent is not ready", "try again; PRAGMA holdfast_status says more");
	}
	/* An agent whose state did not change says nothing: after a second it is asked, by another HELLO. */
	if (a->doubt && now_ms() - a->doubted > 1000) {
		a->doubted = now_ms();
		socket_close(a);
		if (agent_ready(f, ANSWER_MS) != 0)
			return refused(f, a->why, start);
	}
	if (a->doubt)
		return refused(f, a->why[0] ? a->why : "an earlier commit is not known to be stored", "try again; PRAGMA holdfast_status says more");
	return SQLITE_OK;
}

/* commit_claimed_gate is commit_gate for a transaction that may be one over several databases. claim_drop ends what it took. */
int commit_claimed_gate(File *f)
{
	int rc = commit_gate(f);
	if (rc != SQLITE_BUSY)
		f->takeover = TAKEOVER_NONE;
	if (rc == SQLITE_OK && f->kind != KIND_PLAIN && claim_take(f) != 0)
		return refused(f, "a transaction over two databases is not stored as one",
			"write to one database at a time (BEGIN IMMEDIATE begins on all that are attached)");
	return rc;
}

/* doubtful reports a commit that was made and is not known to be stored. */
static int doubtful(File *f)
{
	Agent *a = &f->agent;
	a->doubt = 1;
	a->doubted = now_ms();
	sqlite3_log(SQLITE_IOERR, "holdfast: %s: a commit was made and is not known to be stored: %s; "
		"look at the data before you repeat it", f->name, a->why[0] ? a->why : "not stored in time");
	return SQLITE_IOERR;
}

/* exclusive_local has the WAL of a locking_mode=EXCLUSIVE connection captured: its owner starts it anew whenever it likes. */
static void exclusive_local(File *f)
{
	Agent *a = &f->agent;
	int64_t now = now_ms();

	if (!socket_mine(a) && now < a->again)
		return;
	a->again = now + 10000; /* an agent that does not answer is missing, for a while */
	if (agent_ready(f, 1000) != 0 || !a->managed)
		return;
	if (agent_commit(f, NULL, UNTIL_CAPTURED, 1, HOLD_MS) != DONE_LOST)
		a->again = 0;
}

/* commit_phase_two is the moment behind a commit: others see it, its caller has no answer yet. */
int commit_phase_two(File *f)
{
	Agent *a = &f->agent;
	int pending = f->pending, unlocked = f->unlocked;

	f->pending = 0;
	f->unlocked = 0;
	if (unlocked)
		claim_drop(f);
	if (f->kind != KIND_MANAGED)
		return SQLITE_OK;
	if (!pending && !unlocked) {
		if (!f->wal && file_ack(f) == ACK_LOCAL)
			agent_note(f); /* a rollback journal's */
		return SQLITE_OK;
	}
	if (file_ack(f) == ACK_LOCAL) {
		if (unlocked)
			exclusive_local(f);
		else
			agent_note(f);
		return SQLITE_OK;
	}
	if (agent_ready(f, ANSWER_MS) != 0)
		return doubtful(f);
	int ms = (int)a->timeout + ANSWER_MS;
	if (agent_commit(f, pending ? &f->commit : NULL, UNTIL_STORED, pending ? 0 : 1, ms) != DONE_OK)
		return doubtful(f);
	if (pending) {
		f->stored = f->commit;
		f->has_stored = 1;
	}
	return SQLITE_OK;
}

/* commit_wait_stored waits for a position on behalf of a reader: SQLITE_OK, or SQLITE_IOERR. */
int commit_wait_stored(File *f, const Position *p)
{
	Agent *a = &f->agent;

	if (f->has_stored && memcmp(f->stored.salt, p->salt, sizeof p->salt) == 0 && p->frame <= f->stored.frame)
		return SQLITE_OK;
	if (agent_ready(f, ANSWER_MS) == 0) {
		if (!a->managed)
			return SQLITE_OK;
		if (agent_commit(f, p, UNTIL_STORED, 0, (int)a->timeout + ANSWER_MS) == DONE_OK) {
			f->stored = *p;
			f->has_stored = 1;
			return SQLITE_OK;
		}
	}
	sqlite3_log(SQLITE_IOERR, "holdfast: %s: what is read is not known to be stored: %s; PRAGMA holdfast_read=any reads it",
		f->name, a->why[0] ? a->why : "not stored in time");
	return SQLITE_IOERR;
}

/*
** commit_saw is called before the first page of a read transaction is handed out under holdfast_read=stored. A write transaction reads
** its first page before it takes the WRITE lock, so nobody waits for the bucket with that lock; but what others commit meanwhile may let
** it begin anew (SQLITE_BUSY_SNAPSHOT, which a busy handler hides).
*/
int commit_saw(File *f)
{
	int rc = commit_wait_stored(f, &f->seen);
	if (rc == SQLITE_OK)
		f->unseen = 0;
	return rc;
}
