// Package flags reads how etcd is started: its command line, its ETCD_* environment and its configuration file, by its own rules of
// precedence, into Settings. The effect of each flag here is in one table (table.go).
//
// It is not a server and starts nothing, it opens no file but the configuration, and it does not know Holdfast's own flags.
package flags
