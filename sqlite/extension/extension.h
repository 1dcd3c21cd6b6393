/*
** The SQLite extension of Holdfast: a VFS between SQLite and the operating system's that tells the agent what was committed and, where
** asked to, makes the committer wait until that is stored. It reads no page, writes nothing, has no thread and no network, and keeps
** nothing but a socket. It is not the agent: what is in a WAL, and when it is stored, is the agent's to know.
**
** Formats: docs/formats/sqlite.md, "Between extension and agent". Reasons: docs/adr/0019-sqlite-in-a-bucket.md.
*/
#ifndef HOLDFAST_EXTENSION_H
#define HOLDFAST_EXTENSION_H

#include <sqlite3ext.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What this connection knows of its database. ASK becomes one of the others at the first write. PLAIN is final if the agent said so; else an
** agent may come later, and is looked for again. */
enum { KIND_PLAIN, KIND_ASK, KIND_MANAGED };

/* What a commit waits for, as the socket's messages count it. */
enum { ACK_ANY, ACK_LOCAL, ACK_ARCHIVE };

/* Why write transactions are refused, as in STATE. */
enum { REFUSE_NO, REFUSE_FENCED, REFUSE_DOUBT, REFUSE_STOPS, REFUSE_TAKING_OVER };

/* What a COMMIT waits for. */
enum { UNTIL_CAPTURED = 1, UNTIL_STORED = 2 };

/* What agent_commit returns beside the codes of DONE. */
enum { DONE_OK = 0, DONE_LATE = 1, DONE_LOST = -1 };

#define PATH_MOST 4096 /* bytes of a database's path in HELLO */
#define TEXT_MOST 4096 /* bytes of text in a message */
#define ANSWER_MS 5000 /* how long the agent may take for an answer that waits for nothing, and over a COMMIT's own time */
#define HOLD_MS 2000   /* how long a transaction waits at most before it begins */

/* A position in a WAL: everything up to frame, of the WAL with that salt (as it stands in the wal-index). */
typedef struct {
	unsigned char salt[8];
	uint32_t frame;
} Position;

/* What the kernel knows a file or a directory by; 0: there is none. */
typedef struct {
	uint64_t dev, ino;
} Inode;

/* The socket to the agent, and what the agent said last. Owned by its file. */
typedef struct {
	int fd;                /* -1: none */
	pid_t pid;             /* the process that opened fd; another one is a child after fork and must not use it */
	char path[108];        /* of the socket; empty: none is known */
	int known;             /* a STATE has come through fd */
	int managed;           /* what it said */
	int ack;               /* before the first STATE: what the agent's file or the environment says */
	int refuse;
	int hold;
	unsigned timeout;      /* ms a COMMIT may take */
	int doubt;             /* a COMMIT failed, and no STATE has allowed writing since */
	int64_t doubted;       /* when it failed, ms */
	uint32_t seq;          /* of the last request */
	int64_t looked;        /* when the socket was last read without waiting, ms */
	int64_t again;         /* not before then is a missing agent looked for, where nobody waits for it, ms */
	int64_t noted;         /* when the last NOTE was sent, ms */
	char why[200];         /* why there is no agent, or what it said about refusing; one line */
} Agent;

/*
** A takeover switches a database to WAL mode, for which it needs every lock. A transaction with a rollback journal that meets one gets
** SQLITE_BUSY (MET), and lets go of its own locks. When it comes again it waits before it takes the first (WAITED).
*/
enum { TAKEOVER_NONE, TAKEOVER_MET, TAKEOVER_WAITED };

/*
** An open database. It begins with what SQLite knows a file by; the file of the VFS below follows it in the same allocation.
** SQLite calls into one file from one thread at a time; only what the comment says is shared with other files.
*/
typedef struct File File;
struct File {
	sqlite3_file base;
	sqlite3_io_methods methods; /* ours, without those that the file below does not have */
	sqlite3_file *below;
	const char *name;           /* absolute; SQLite keeps it until xClose */
	Inode file, dir;            /* of the name when it was opened */
	int astray;                 /* the name means another file by now */
	int said;                   /* ... and that was written into SQLite's log */
	sqlite3 **db;               /* where SQLite keeps whose file this is; NULL: it did not say */
	int kind;
	int unmanaged;              /* the agent said that this database is none of its */
	int64_t found;              /* PLAIN: when the agent's file was last looked for, ms */
	int want;                   /* the ack this connection asked for, by URI or PRAGMA; ACK_ANY: as the agent says */
	int demanded;               /* URI, PRAGMA or the agent's file say archive: without an agent writes are refused, not passed through */
	Agent agent;

	/* WAL mode */
	volatile unsigned char *index; /* region 0 of the wal-index, NULL before it is mapped */
	int wal;                       /* the WAL is open */
	unsigned marks;                /* read marks held, a bit for each: not 0 in every transaction */
	int locked;                    /* the WRITE lock is held */
	int writing;                   /* ... for a transaction, not for a recovery or a checkpoint */
	int unlocked;                  /* frames were written without the WRITE lock: locking_mode=EXCLUSIVE */
	uint32_t change;               /* iChange when it began */
	int pending;                   /* COMMIT_PHASETWO has a position to wait for */
	Position commit;               /* that position */

	/* rollback journal */
	int reserved;               /* RESERVED or more is held */
	int to_wal;                 /* PRAGMA journal_mode=wal was just asked for: its own transaction may pass */
	int takeover;               /* TAKEOVER_... */

	/* PRAGMA holdfast_read=stored */
	int read_stored;
	int unseen;                 /* a read transaction began, and what it sees was not waited for */
	Position seen;              /* what it sees */
	int has_seen;
	Position stored;            /* known to be stored */
	int has_stored;
	unsigned reads;             /* read transactions of a connection without a socket */

	/* guarded by the mutex of claim.c */
	File *next, **link;         /* the list of files that are not PLAIN */
	sqlite3 *claim;             /* the connection whose write transaction this file is part of */
};

/* file.c */
void file_methods(File *f);
int file_ack(const File *f);
const char *ack_word(int ack);

/* place.c: which file it is */
void place_at_open(File *f);
int place_astray(File *f);

/* shm.c: locks of the wal-index, and what is read from it */
int shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **out);
int shm_lock(sqlite3_file *file, int offset, int n, int flags);
void shm_barrier(sqlite3_file *file);
int shm_unmap(sqlite3_file *file, int remove);

/* wal.c */
typedef struct {
	sqlite3_file base;
	File *main;
	sqlite3_file *below;
} Wal;
void wal_methods(Wal *w);

/* commit.c: where a transaction is let begin and where its commit waits */
int commit_gate(File *f);
int commit_claimed_gate(File *f);
int commit_phase_two(File *f);
int commit_saw(File *f);
int commit_wait_stored(File *f, const Position *p);
int commit_ask(File *f);

/* claim.c: write transactions over attached databases */
void claim_enter(File *f);
void claim_leave(File *f);
int claim_take(File *f);
void claim_drop(File *f);
int claim_prepare(void);

/* agent.c: one request and its answer */
int agent_ready(File *f, int ms);
void agent_look(File *f, int every);
void agent_hold(File *f);
int agent_commit(File *f, const Position *p, int until, int flags, int ms);
void agent_note(File *f);
int agent_status(File *f, char *text, size_t size);
void agent_wait_taking_over(File *f);

/* socket.c: packets */
typedef struct {
	int kind;      /* 0: none */
	uint32_t seq;
	int code;
	char *text;    /* where to put the text; may be NULL */
	size_t size;
} Answer;
int socket_hello(File *f, int64_t deadline);
int socket_send(Agent *a, const unsigned char *packet, size_t n, int64_t deadline);
int socket_receive(Agent *a, Answer *answer, int64_t deadline);
void socket_close(Agent *a);
int socket_mine(Agent *a);
void socket_why(Agent *a, const char *text);
int64_t now_ms(void);
void put32(unsigned char *p, uint32_t v);
void put64(unsigned char *p, uint64_t v);

/* found.c: which database is whose */
int found_at_open(File *f);
int found_later(File *f);
void found_again(File *f);
int found_ack(const char *word);

/* pragma.c */
int pragma_call(File *f, char **args);

#endif
