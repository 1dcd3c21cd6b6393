// Package tlog is the transparency log door: C2SP tlog-tiles over HTTP for readers, POST /add for writers as Tessera's tools expect it. It
// adds answers those tools have no path for: an entry's proof in the answer to its add, proofs and lookups on request.
//
// It decodes, waits and encodes. doors/tlog/machine decides an entry's index, which entries are equal and the extent of a checkpoint.
// Checkpoints are signed in doors/tlog/checkpoint. HTTP/1.1 is answered by fasthttp because an add costs little else; HTTP/2, cleartext or
// inside TLS, by net/http through the same code.
package tlog
