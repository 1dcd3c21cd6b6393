package conf

import "slices"

// use is the effect of a setting here.
type use int

const (
	honoured use = iota
	idle         // taken, and the log says why it does nothing
	refused      // an operator may rely on it
	foreign      // of a kind of replica that is not offered; without a meaning for the others, as in Litestream
)

// kind is how a setting's value is written.
type kind int

const (
	text kind = iota
	yesno
	span   // a time.Duration
	number // not negative
	list   // of texts
)

// row is one setting. The name of a nested one has a point: snapshot.interval.
type row struct {
	name string
	kind kind
	use  use
	why  string
}

// Reasons that several settings share.
const (
	noHeartbeat = "no heartbeat is sent"
	noCheck     = "files of a higher level are made from the database and carry its checksum, which every restore checks"
	noMeta      = "what is known of a replica lies in .NAME-holdfast beside each database, where the extension looks for it"
	checkpoints = "applications checkpoint as they like, and nothing is stored by it"
	signing     = "every upload is signed as S3 asks"
	oneUpload   = "an object is uploaded in one request"
	noClass     = "objects have the bucket's default class; a lifecycle rule of the bucket can change it"
	noKey       = "objects would not be encrypted with it; let the bucket encrypt by itself, and remove the setting"
	otherStores = "it is of a kind of replica that is not offered"
)

// topTable is the file's top level, without dbs and levels, which are lists of their own. It leaves out the settings of replicas, which are
// allowed there too.
var topTable = []row{
	{name: "exec"},
	{name: "snapshot.interval", kind: span},
	{name: "snapshot.retention", kind: span},
	{name: "retention.enabled", kind: yesno},
	{name: "l0-retention", kind: span},
	{name: "l0-retention-check-interval", kind: span, use: idle, why: "files are removed when the ones that replace them are there"},
	{name: "logging.level"},
	{name: "logging.type"},
	{name: "logging.stderr", kind: yesno},
	{name: "logging.source", kind: yesno},
	{name: "socket.enabled", kind: yesno},
	{name: "socket.path"},
	{name: "socket.permissions", kind: number},
	{name: "shutdown-timeout", kind: span},
	{name: "shutdown-sync-timeout", kind: span},
	{name: "shutdown-sync-interval", kind: span, use: idle, why: "what is left at the end is tried again as at any time"},
	{name: "addr"},
	{name: "mcp-addr", use: idle, why: "no such server is offered"},
	{name: "heartbeat-url", use: idle, why: noHeartbeat},
	{name: "heartbeat-interval", kind: span, use: idle, why: noHeartbeat},
	{name: "validation.interval", kind: span, use: idle, why: noCheck},
	{name: "verify-compaction", kind: yesno, use: idle, why: noCheck},
}

// databaseTable is one entry of dbs, without its replica.
var databaseTable = []row{
	{name: "path"},
	{name: "dir"},
	{name: "pattern"},
	{name: "recursive", kind: yesno},
	{name: "watch", kind: yesno},
	{name: "restore-if-db-not-exists", kind: yesno},
	{name: "monitor-interval", kind: span},
	{name: "busy-timeout", kind: span},
	{name: "snapshot.interval", kind: span},
	{name: "snapshot.retention", kind: span},
	{name: "meta-path", use: idle, why: noMeta},
	{name: "meta-dir", use: idle, why: noMeta},
	{name: "checkpoint-interval", kind: span, use: idle, why: checkpoints},
	{name: "min-checkpoint-page-count", kind: number, use: idle, why: checkpoints},
	{name: "truncate-page-n", kind: number, use: idle, why: checkpoints},
	{name: "max-sync-wal-bytes", kind: number, use: idle, why: "what is captured at a time has a bound of its own"},
}

// placeTable says which replica it is; only a replica has these, while replicaTable may stand at the top of the file for all of them.
var placeTable = []row{
	{name: "type"},
	{name: "url"},
	{name: "path"},
	{name: "name", use: idle, why: "a database has one replica"},
}

var replicaTable = []row{
	{name: "sync-interval", kind: span},
	{name: "bucket"},
	{name: "region"},
	{name: "endpoint"},
	{name: "access-key-id"},
	{name: "secret-access-key"},
	{name: "force-path-style", kind: yesno},
	{name: "skip-verify", kind: yesno},
	{name: "validation-interval", kind: span, use: idle, why: noCheck},
	{name: "max-sync-ltx-files", kind: number, use: idle, why: "uploads that wait are joined, not counted"},
	{name: "auto-recover", kind: yesno, use: idle, why: "a database that does not match its replica is compared page by page and goes on"},
	{name: "sign-payload", kind: yesno, use: idle, why: signing},
	{name: "sign-accept-encoding", kind: yesno, use: idle, why: signing},
	{name: "require-content-md5", kind: yesno, use: idle, why: signing},
	{name: "put-object-content-md5", kind: yesno, use: idle, why: signing},
	{name: "part-size", use: idle, why: oneUpload},
	{name: "concurrency", kind: number, use: idle, why: oneUpload},
	{name: "storage-class", use: idle, why: noClass},
	{name: "sse-customer-algorithm", use: refused, why: noKey},
	{name: "sse-customer-key", use: refused, why: noKey},
	{name: "sse-customer-key-md5", use: refused, why: noKey},
	{name: "sse-customer-key-path", use: refused, why: noKey},
	{name: "sse-kms-key-id", use: refused, why: noKey},
	{name: "age.identities", kind: list, use: refused, why: "what is stored would not be encrypted, as with Litestream 0.5"},
	{name: "age.recipients", kind: list, use: refused, why: "what is stored would not be encrypted, as with Litestream 0.5"},
	{name: "account-name", use: foreign},
	{name: "account-key", use: foreign},
	{name: "sas-token", use: foreign},
	{name: "host", use: foreign},
	{name: "user", use: foreign},
	{name: "password", use: foreign},
	{name: "key-path", use: foreign},
	{name: "concurrent-writes", kind: yesno, use: foreign},
	{name: "host-key", use: foreign},
	{name: "webdav-url", use: foreign},
	{name: "webdav-username", use: foreign},
	{name: "webdav-password", use: foreign},
	{name: "jwt", use: foreign},
	{name: "seed", use: foreign},
	{name: "creds", use: foreign},
	{name: "nkey", use: foreign},
	{name: "username", use: foreign},
	{name: "token", use: foreign},
	{name: "tls", kind: yesno, use: foreign},
	{name: "root-cas", kind: list, use: foreign},
	{name: "client-cert", use: foreign},
	{name: "client-key", use: foreign},
	{name: "max-reconnects", use: foreign}, // -1 is a number there
	{name: "reconnect-wait", kind: span, use: foreign},
	{name: "timeout", kind: span, use: foreign},
}

// find returns the row of a setting, nil if there is none of that name.
func find(name string, tables ...[]row) *row {
	for _, t := range tables {
		if i := slices.IndexFunc(t, func(r row) bool { return r.name == name }); i >= 0 {
			return &t[i]
		}
	}
	return nil
}
