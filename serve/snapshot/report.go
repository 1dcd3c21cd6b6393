package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/serve"
)

// report is what people want to know of a snapshot file.
type report struct {
	Cluster     string
	Index, Term uint64
	// Facts are the doors' facts about it, Holds the counts for a person: keys, v2 nodes, users, logs.
	Facts []serve.Fact
	Holds holdings
	Rows  uint64
	Bytes int64
	// SHA256 is the whole file's, in hexadecimal.
	SHA256 string
}

// MarshalJSON implements json.Marshaler: one object, with the facts among its fields.
func (r *report) MarshalJSON() ([]byte, error) {
	fields := []serve.Fact{{Name: "cluster", Value: r.Cluster}, {Name: "index", Value: r.Index}, {Name: "term", Value: r.Term}}
	fields = append(fields, r.Facts...)
	fields = append(fields, serve.Fact{Name: "holds", Value: r.Holds}, serve.Fact{Name: "rows", Value: r.Rows},
		serve.Fact{Name: "bytes", Value: r.Bytes}, serve.Fact{Name: "sha256", Value: r.SHA256})
	out := []byte("{")
	for i, f := range fields {
		v, err := json.Marshal(f.Value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(strconv.AppendQuote(out, f.Name), ':'), v...)
	}
	return append(out, '}'), nil
}

// brief is the facts that are on the one line of a finished save, "" or ending in a comma.
func (r *report) brief() (text string) {
	for _, f := range r.Facts {
		if f.Brief {
			text += f.Name + " " + f.Text + ", "
		}
	}
	return text
}

// readSnapshot reads a snapshot to its end, checking every checksum. saved are the doors' readers, used for nothing before.
func readSnapshot(specs machine.Specs, saved []*serve.Saved, r io.Reader) (*report, error) {
	in := &counted{r: r, sum: sha256.New()}
	census := specs.Census()
	info, err := node.ReadSnapshot(in, nil, func(k, v []byte) error {
		if err := specs.Known(k); err != nil {
			return err
		}
		if err := census.Row(k, v); err != nil {
			return err
		}
		for _, s := range saved {
			if s.Row != nil {
				if err := s.Row(k, v); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := in.envelope(); err != nil {
		return nil, err
	}
	out := &report{Cluster: fmt.Sprintf("%x", info.Cluster), Index: info.Index, Term: info.Term, Holds: census.Counts(), Rows: info.Keys,
		Bytes: in.n, SHA256: hex.EncodeToString(in.sum.Sum(nil))}
	for _, s := range saved {
		if s.Facts != nil {
			out.Facts = append(out.Facts, s.Facts()...)
		}
	}
	return out, nil
}

// counted hashes and counts what is read.
type counted struct {
	r   io.Reader
	sum hash.Hash
	n   int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.add(p[:n])
	return n, err
}

func (c *counted) add(p []byte) {
	c.sum.Write(p)
	c.n += int64(len(p))
}

// Before version 1.1 the kv door sent etcdctl this format, padded with zeros to whole sectors and followed by its SHA-256.
const snapshotSector = 512

// envelope reads the bytes behind the snapshot's own end: none, or the kv door's envelope.
func (c *counted) envelope() error {
	rest, err := io.ReadAll(io.LimitReader(c.r, snapshotSector+sha256.Size))
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return nil
	}
	pad := len(rest) - sha256.Size
	if pad < 0 || pad >= snapshotSector || (c.n+int64(pad))%snapshotSector != 0 || len(bytes.Trim(rest[:pad], "\x00")) != 0 {
		return fmt.Errorf("%d bytes or more after the end of the snapshot", len(rest))
	}
	c.add(rest[:pad])
	if !bytes.Equal(c.sum.Sum(nil), rest[pad:]) {
		return errors.New("the SHA-256 at its end is not that of the file")
	}
	c.add(rest[pad:])
	return nil
}
