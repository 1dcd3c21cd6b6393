// Package v2 speaks etcd's v2 HTTP API as etcd 3.4 does. It has /v2/keys with its JSON, headers, error codes and watches, and /v2/members,
// /v2/stats and /v2/machines beside it. It turns requests into commands of doors/kv/v2/machine and events into bytes; the machine decides
// the effect of a command. It does not listen: the owner of the kv port mounts it. It does not offer v2's own users and roles (/v2/auth),
// and says so.
//
// Where it differs from the original, on purpose:
//
//   - A stream with waitIndex goes on with every later event; the original sends the first one of its history and then nothing. A stream is
//     told of a deletion once; the original tells one on the node itself twice.
//   - A learner answers nothing about keys and changes no members, as in v3; the original serves them from its own state.
//   - quorum=true is a read-index round and no entry of the log.
//   - A time to live counts by the cluster's tick: a leader whose clock is wrong ends nothing early. The remaining time of a node and its
//     end by the clock are for display.
//   - Unsorted listings come sorted. A listing over MaxListBytes is refused.
//   - A long poll that has ended its wait leaves the connection usable, as in the original. A watcher that does not read is cut off after
//     100 events, or when all watchers together hold too much.
//
// Reads and writes are what load tools measure, so they allocate next to nothing, and no answer is made by reflection.
package v2
