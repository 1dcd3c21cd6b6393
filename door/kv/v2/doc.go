// Package v2 speaks etcd's v2 HTTP API as etcd 3.4 does: /v2/keys with its JSON, headers, error codes and watches, and
// /v2/members, /v2/stats and /v2/machines beside it. It turns requests into commands of machine/etcd2 and events into
// bytes; what a command means is decided in the machine. It does not listen: whoever owns the kv port mounts it. It does not
// offer v2's own users and roles (/v2/auth), and says so.
//
// Reads and writes are what load tools measure, so they allocate next to nothing, and no answer is made by reflection.
package v2
