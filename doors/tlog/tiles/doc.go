// Package tiles holds the arithmetic and the formats of transparency logs. It has RFC 6962 hashes, the frontier of a growing tree, hash
// tiles of height 8 and entry bundles as in C2SP tlog-tiles. It has inclusion and consistency proofs, signed notes, checkpoints,
// cosignatures and tlog-proofs.
//
// It is pure: no store, no files, no network, no clock. doors/tlog/machine and doors/tlog/checkpoint decide when a tree grows and when a
// checkpoint is signed. The package fetches nothing: a Prover is given tiles by its caller. Everything it decodes may come from strangers,
// so every decoder is bounded and has a fuzz test. Byte tables: docs/formats/tlog.md.
package tiles

const (
	// Height is the height of a tile in the tree: a full one has Width hashes.
	Height = 8
	// Width is how many hashes a full tile has, and how many entries a full bundle.
	Width = 1 << Height
	// MaxEntryBytes bounds an entry; its length is two bytes in a bundle.
	MaxEntryBytes = 1<<16 - 1
	// MaxSize bounds the number of entries of a log: positions in a tile still fit 64 bits with room to add.
	MaxSize = 1 << 55
)
