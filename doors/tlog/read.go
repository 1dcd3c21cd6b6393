package tlog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"

	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
)

// checkpoint answers with the newest signed note, the same bytes on every member.
func checkpoint(r *request) response {
	note := r.shown.Note
	sum := sha256.Sum256(note)
	a := response{code: 200, contentType: typeText, cache: cacheAsk, etag: `"` + hex.EncodeToString(sum[:12]) + `"`, body: note}
	if matches(r.match, a.etag) {
		a.code, a.body = 304, nil
	}
	return a
}

// tile answers with a tile or bundle, full or partial, of any width that the newest checkpoint covers.
func (d *Door) tile(l *tlogmachine.Log, path string, r *request) response {
	ref, err := tiles.ParsePath(path)
	if err != nil {
		return fail(404, "no tile path")
	}
	size := r.shown.Size
	if ref.Level > 0 {
		size >>= min(tiles.Height*ref.Level, 63)
	}
	if ref.N > tiles.MaxSize || ref.N*tiles.Width+uint64(ref.Width) > size {
		return fail(404, "the checkpoint does not cover it")
	}
	a := response{code: 200, contentType: typeBytes, cache: cacheForever, ranges: true, etag: immutableTag(l, path)}
	// Hashes do not compress, and a partial bundle is asked for once.
	a.vary = ref.Level == tiles.EntryLevel && ref.Width == tiles.Width
	packs := a.vary && r.gzip && r.bytes == "" // a range is one of the bytes that a reader without gzip gets
	if packed := gzipTag(a.etag); packs && matches(r.match, packed) {
		a.code, a.etag = 304, packed
		return a
	}
	if matches(r.match, a.etag) {
		a.code = 304
		return a
	}
	if packs {
		body, known := d.packed.get(l, ref.N)
		if !known {
			if a.body, err = l.Bundle(ref.N, ref.Width); err == nil {
				body = d.packed.pack(l, ref.N, a.body)
			}
		}
		if body != nil {
			a.body, a.gzipped, a.etag = body, true, gzipTag(a.etag)
			return a
		}
	}
	switch {
	case a.body != nil || err != nil:
	case ref.Level == tiles.EntryLevel:
		a.body, err = l.Bundle(ref.N, ref.Width)
	default:
		a.body, err = l.Tile(ref.Level, ref.N, ref.Width)
	}
	switch {
	case errors.Is(err, tlogmachine.ErrAbsent):
		return fail(404, "not in the log")
	case err != nil:
		return fail(500, err.Error())
	}
	return a.part(r)
}

// number reads a decimal number without sign or leading zeros.
func number(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == s
}

// inclusion answers /proof/inclusion?index=N with a tlog-proof under the newest checkpoint, and with &size=S by the bare hashes
// in the tree of that size.
func inclusion(l *tlogmachine.Log, r *request) response {
	v, ok := values(r.query, "index", "size")
	index, ok2 := number(v["index"])
	if !ok || !ok2 {
		return fail(400, "want ?index=N, and &size=S for a size other than the checkpoint's")
	}
	c := r.shown
	size := c.Size
	if s, given := v["size"]; given {
		if size, ok = number(s); !ok {
			return fail(400, "size is a number")
		}
	}
	if index >= size || size > c.Size {
		return fail(404, "the checkpoint does not cover it")
	}
	if _, given := v["size"]; !given {
		b, err := proofUnder(l, c, index)
		if err != nil {
			return fail(500, err.Error())
		}
		return response{code: 200, contentType: typeProof, cache: cacheNever, body: b}
	}
	hashes, err := l.Prover(l.View(), size).Inclusion(index)
	if err != nil {
		return fail(500, err.Error())
	}
	return object(cacheForever, struct {
		Index  uint64   `json:"index"`
		Size   uint64   `json:"size"`
		Hashes []string `json:"hashes"`
	}{index, size, texts(hashes)})
}

// consistency answers /proof/consistency?from=A&to=B.
func consistency(l *tlogmachine.Log, r *request) response {
	v, ok := values(r.query, "from", "to")
	from, ok1 := number(v["from"])
	to, ok2 := number(v["to"])
	switch {
	case !ok || !ok1 || !ok2 || from > to:
		return fail(400, "want ?from=A&to=B, sizes of the log, the smaller first")
	case to > r.shown.Size:
		return fail(404, "the checkpoint does not cover it")
	}
	hashes, err := l.Prover(l.View(), to).Consistency(from)
	if err != nil {
		return fail(500, err.Error())
	}
	return object(cacheForever, struct {
		From   uint64   `json:"from"`
		To     uint64   `json:"to"`
		Hashes []string `json:"hashes"`
	}{from, to, texts(hashes)})
}

// mostIndexes is how many indexes a lookup answers.
const mostIndexes = 100

// lookup answers /lookup?hash=H with the indexes of entries that have this leaf hash.
func lookup(l *tlogmachine.Log, r *request) response {
	if !l.Spec.Dedup && !l.Spec.Index {
		return fail(501, "this log was begun without --index")
	}
	v, ok := values(r.query, "hash")
	raw, err := hex.DecodeString(v["hash"])
	if !ok || err != nil || len(raw) != tiles.HashSize {
		return fail(400, "want ?hash= and the leaf hash in hex")
	}
	found, err := l.Lookup(tiles.Hash(raw), mostIndexes)
	if err != nil {
		return fail(500, err.Error())
	}
	size := r.shown.Size
	covered := found[:0]
	for _, i := range found {
		if i < size {
			covered = append(covered, i)
		}
	}
	if len(covered) == 0 {
		return fail(404, "no entry under the checkpoint has this hash")
	}
	return object(cacheNever, struct {
		Indexes []uint64 `json:"indexes"`
	}{covered})
}

func texts(hs []tiles.Hash) []string {
	out := make([]string, len(hs))
	for i := range hs {
		out[i] = hs[i].String()
	}
	return out
}

// object is an answer in JSON. The fields are numbers and strings: encoding them cannot fail.
func object(cache string, v any) response {
	b, _ := json.Marshal(v)
	return response{code: 200, contentType: typeJSON, cache: cache, body: append(b, '\n')}
}
