/*
** PRAGMA holdfast_ack, holdfast_read, holdfast_status, and journal_mode where it would end the WAL. A PRAGMA is always answered with
** text: Python's sqlite3 takes one without for a lack of memory.
*/
#include "extension.h"

#include <string.h>
#include <strings.h>

SQLITE_EXTENSION_INIT3

enum { OUT, NAME, VALUE }; /* args of SQLITE_FCNTL_PRAGMA */

static int text(char **args, int rc, const char *format, const char *value)
{
	args[OUT] = sqlite3_mprintf(format, value);
	return args[OUT] ? rc : SQLITE_NOMEM;
}

static int pragma_ack(File *f, char **args)
{
	const char *value = args[VALUE];
	if (value) {
		int ack = found_ack(value);
		if (!ack)
			return text(args, SQLITE_ERROR, "holdfast_ack=%s: say local or archive", value);
		if (f->kind != KIND_PLAIN) {
			f->want = ack;
		} else { /* what asks for archive is not passed through from the next transaction on */
			f->demanded = ack == ACK_ARCHIVE;
			f->want = f->demanded ? ack : ACK_ANY;
		}
	}
	return text(args, SQLITE_OK, "%s", f->kind == KIND_PLAIN && !f->demanded ? "none" : ack_word(file_ack(f)));
}

static int pragma_read(File *f, char **args)
{
	const char *value = args[VALUE];
	if (value) {
		int stored = strcmp(value, "stored") == 0;
		if (!stored && strcmp(value, "any") != 0)
			return text(args, SQLITE_ERROR, "holdfast_read=%s: say any or stored", value);
		f->read_stored = stored;
	}
	return text(args, SQLITE_OK, "%s", f->kind == KIND_PLAIN ? "none" : f->read_stored ? "stored" : "any");
}

static int pragma_status(File *f, char **args)
{
	char said[TEXT_MOST + 1];
	if (f->kind == KIND_PLAIN)
		return text(args, SQLITE_OK, "%s", "none: no agent has this database");
	if (agent_status(f, said, sizeof said) != 0)
		return text(args, SQLITE_OK, "none: %s", f->agent.why[0] ? f->agent.why : "no agent");
	return text(args, SQLITE_OK, "%s", said);
}

/* journal_mode lets a database enter WAL mode and, under archive, not leave it: nobody would read another journal. */
static int journal_mode(File *f, char **args)
{
	static const char *const others[] = {"delete", "truncate", "persist", "memory", "off"};
	const char *value = args[VALUE];

	if (!value)
		return SQLITE_NOTFOUND;
	if (strcasecmp(value, "wal") == 0) {
		f->to_wal = !f->wal;
		return SQLITE_NOTFOUND;
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		if (strcasecmp(value, others[i]) != 0)
			continue;
		commit_ask(f);
		if (f->kind != KIND_PLAIN && file_ack(f) == ACK_ARCHIVE)
			return text(args, SQLITE_ERROR, "journal_mode=%s would end what is stored; under holdfast_ack=archive only WAL can be", value);
	}
	return SQLITE_NOTFOUND;
}

/* pragma_call answers SQLITE_FCNTL_PRAGMA; SQLITE_NOTFOUND: SQLite goes on with it. */
int pragma_call(File *f, char **args)
{
	const char *name = args[NAME];

	if (f->kind == KIND_PLAIN && strncasecmp(name, "holdfast_", 9) != 0)
		return SQLITE_NOTFOUND;
	if (strcasecmp(name, "journal_mode") == 0)
		return journal_mode(f, args);
	if (strncasecmp(name, "holdfast_", 9) != 0)
		return SQLITE_NOTFOUND;
	commit_ask(f); /* without an answer: what is known before asking */
	if (strcasecmp(name, "holdfast_ack") == 0)
		return pragma_ack(f, args);
	if (strcasecmp(name, "holdfast_read") == 0)
		return pragma_read(f, args);
	if (strcasecmp(name, "holdfast_status") == 0)
		return pragma_status(f, args);
	return text(args, SQLITE_ERROR, "no PRAGMA %s; there are holdfast_ack, holdfast_read and holdfast_status", name);
}
