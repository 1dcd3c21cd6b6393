// Package row turns the values of SQL rows into bytes and back: whole rows as the store keeps them, and keys that sort as the values do. A text in
// a key stands there by its weights, so that the order of the store, ORDER BY and UNIQUE agree.
//
// It knows the engine's types and no table, no index and no transaction. The byte tables are in docs/formats/sql.md.
package row
