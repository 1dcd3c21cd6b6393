// Package tlog is the transparency log door: C2SP tlog-tiles over HTTP for readers, POST /add for writers as Tessera's tools
// expect it, and what those tools have no path for: an entry's proof in the answer to its add, proofs and lookups on request.
//
// It decodes, waits and encodes. What an index is, which entries are equal and what a checkpoint covers is decided in
// doors/tlog/machine; checkpoints are signed in doors/tlog/checkpoint. HTTP/1.1 is answered by fasthttp because an add costs little
// else; HTTP/2, cleartext or inside TLS, by net/http through the same code.
package tlog
