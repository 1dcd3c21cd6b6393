package machine

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/entry"
	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
	"github.com/holdfastdb/holdfast/internal/golden"
)

// TestStories plays the scripts in testdata. A line is a command in words; what it answers is compared with the lines below
// it that begin with "  ". Commands between "entry" and "end" travel in one raft entry. -rewrite writes the answers instead.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			before, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, tell(t, string(before)))
		})
	}
}

// tell plays a script and returns it with the answers it gave.
func tell(t *testing.T, script string) string {
	s := &story{rig: newRig(t, Options{})}
	var out strings.Builder
	lines := bufio.NewScanner(strings.NewReader(script))
	var batch []*kvpart.Part
	inEntry := false
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "  ") {
			continue // an old answer
		}
		fmt.Fprintln(&out, line)
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		var answer string
		switch words[0] {
		case "entry":
			inEntry, batch = true, nil
			continue
		case "end":
			inEntry = false
			for i, r := range s.apply(batch...) {
				answer += fmt.Sprintf("%d: ", i) + describeResult(r.Rejection, r.Of(entry.MachineKV))
			}
		default:
			if p := s.parse(line); p == nil {
				answer = s.read(words)
			} else if inEntry {
				batch = append(batch, p)
				continue
			} else {
				r := s.apply(p)[0]
				answer = describeResult(r.Rejection, r.Of(entry.MachineKV))
			}
		}
		for _, l := range strings.Split(strings.TrimRight(answer, "\n"), "\n") {
			fmt.Fprintln(&out, "  "+l)
		}
	}
	return out.String()
}

// story is one script being played.
type story struct{ *rig }

// parse reads a command that goes through the log; nil if the line is a read. A txn is written as
// "txn mod(k)=3 value(a)=x ? put k v ; get a b : delete k".
func (s *story) parse(line string) *kvpart.Part {
	words := strings.Fields(line)
	switch words[0] {
	case "put", "delete":
		op := s.op(words)
		return &kvpart.Part{Put: op.Put, Delete: op.Delete}
	case "txn":
		return &kvpart.Part{Txn: s.txn(strings.TrimPrefix(line, "txn"))}
	case "compact":
		return &kvpart.Part{Compact: &kvpart.Compact{Revision: s.number(words[1])}}
	case "grant":
		return &kvpart.Part{Grant: &kvpart.LeaseGrant{ID: s.number(words[1]), TTL: s.number(words[2])}}
	case "revoke", "expire":
		r := &kvpart.LeaseRevoke{Expired: words[0] == "expire"}
		for _, w := range words[1:] {
			r.IDs = append(r.IDs, s.number(w))
		}
		return &kvpart.Part{Revoke: r}
	case "alarm", "disarm":
		return &kvpart.Part{Alarm: &kvpart.Alarm{On: words[0] == "alarm", Type: kvpart.AlarmType(s.number(words[1])), Member: uint64(s.number(words[2]))}}
	}
	return nil
}

func (s *story) number(w string) int64 {
	n, err := strconv.ParseInt(w, 10, 64)
	if err != nil {
		s.T.Fatal(err)
	}
	return n
}

// text reads a word; "\0" stands for the zero byte.
func text(w string) []byte { return []byte(strings.ReplaceAll(w, `\0`, "\x00")) }

// op reads "put k v [lease=1] [prev] [same-value] [same-lease]", "delete k [end] [prev]" or "get k [end] [option=n] [keys] [count]".
func (s *story) op(words []string) kvpart.Op {
	opts, plain := map[string]int64{}, [][]byte{}
	for _, w := range words[1:] {
		switch name, v, ok := strings.Cut(w, "="); {
		case ok:
			opts[name] = s.number(v)
		case w == "prev" || w == "same-value" || w == "same-lease" || w == "keys" || w == "count":
			opts[w] = 1
		default:
			plain = append(plain, text(w))
		}
	}
	plain = append(plain, nil, nil)
	key, second := plain[0], plain[1]
	switch words[0] {
	case "put":
		return kvpart.Op{Put: &kvpart.Put{Key: key, Value: second, Lease: opts["lease"], PrevKV: opts["prev"] != 0,
			IgnoreValue: opts["same-value"] != 0, IgnoreLease: opts["same-lease"] != 0}}
	case "delete":
		return kvpart.Op{Delete: &kvpart.DeleteRange{Key: key, End: second, PrevKV: opts["prev"] != 0}}
	case "get":
		return kvpart.Op{Range: &kvpart.Range{Key: key, End: second, Limit: opts["limit"], Revision: opts["rev"],
			Order: kvpart.SortOrder(opts["order"]), Target: kvpart.SortTarget(opts["by"]), KeysOnly: opts["keys"] != 0, CountOnly: opts["count"] != 0,
			MinMod: opts["minmod"], MaxMod: opts["maxmod"], MinCreate: opts["mincreate"], MaxCreate: opts["maxcreate"]}}
	}
	s.T.Fatalf("no such operation: %q", words)
	return kvpart.Op{}
}

func (s *story) txn(rest string) *kvpart.Txn {
	ifs, ops, ok := strings.Cut(rest, "?")
	if !ok {
		s.T.Fatalf("txn without ?: %q", rest)
	}
	t := &kvpart.Txn{}
	for _, w := range strings.Fields(ifs) {
		t.Compare = append(t.Compare, s.compare(w))
	}
	then, els, _ := strings.Cut(ops, " : ")
	t.Then, t.Else = s.ops(then), s.ops(els)
	return t
}

func (s *story) ops(list string) (ops []kvpart.Op) {
	for _, o := range strings.Split(list, ";") {
		if words := strings.Fields(o); len(words) > 0 {
			ops = append(ops, s.op(words))
		}
	}
	return ops
}

// compare reads "mod(k)=3" or "version(a,b)>0".
func (s *story) compare(w string) kvpart.Compare {
	name, rest, _ := strings.Cut(w, "(")
	keys, cond, ok := strings.Cut(rest, ")")
	if !ok || cond == "" {
		s.T.Fatalf("no such compare: %q", w)
	}
	key, end, _ := strings.Cut(keys, ",")
	c := kvpart.Compare{Key: text(key), End: text(end)}
	c.Target = map[string]kvpart.CompareTarget{"version": 0, "create": 1, "mod": 2, "value": 3, "lease": 4}[name]
	sign := 1
	switch {
	case strings.HasPrefix(cond, "!="):
		c.Result, sign = kvpart.CompareNotEqual, 2
	case cond[0] == '>':
		c.Result = kvpart.CompareGreater
	case cond[0] == '<':
		c.Result = kvpart.CompareLess
	}
	if c.Target == kvpart.CompareValue {
		c.Value = text(cond[sign:])
	} else {
		c.Int = s.number(cond[sign:])
	}
	return c
}

// read answers what does not go through the log.
func (s *story) read(words []string) string {
	fail := func(err error) string { return "error: " + err.Error() + "\n" }
	switch words[0] {
	case "get":
		res, rev, err := s.m.Range(s.op(words).Range, 0)
		if err != nil {
			return fail(err)
		}
		return fmt.Sprintf("at %d\n", rev) + describeRange(res)
	case "previous":
		kv, err := s.m.Previous(text(words[1]), s.number(words[2]))
		if err != nil {
			return fail(err)
		}
		if kv == nil {
			return "none\n"
		}
		return describeKV(kv)
	case "history":
		evs, next, err := s.m.History(text(words[1]), text(words[2]), s.number(words[3]), s.number(words[4]), 1<<20)
		if err != nil {
			return fail(err)
		}
		return describeEvents(evs) + fmt.Sprintf("next %d\n", next)
	case "recent":
		evs, upTo, ok, _ := s.m.Recent(s.number(words[1]))
		return describeEvents(evs) + fmt.Sprintf("up to %d, reached back %t\n", upTo, ok)
	case "leases":
		var b strings.Builder
		for _, l := range s.m.Leases() {
			fmt.Fprintf(&b, "%d ttl=%d keys=%q\n", l.ID, l.TTL, s.m.LeaseKeys(l.ID))
		}
		return b.String() + fmt.Sprintf("%d leases\n", len(s.m.Leases()))
	case "alarms":
		return fmt.Sprintln(s.m.Alarms())
	case "size":
		h, u := s.m.Size()
		rev, compacted := s.m.Revision()
		return fmt.Sprintf("history %d in use %d, revision %d compacted %d\n", h, u, rev, compacted)
	case "hash":
		h, rev, compacted, _, err := s.m.HashKV(s.number(words[1]))
		if err != nil {
			return fail(err)
		}
		return fmt.Sprintf("%08x at %d compacted %d\n", h, rev, compacted)
	case "restart":
		s.reopen(Options{})
		return "ok\n"
	case "tick": // entries without commands
		for range s.number(words[1]) {
			s.ApplyData(nil, false)
		}
		return "ok\n"
	case "rows":
		var b strings.Builder
		for l := range strings.Lines(s.Dump()) {
			if strings.HasPrefix(l, `"k`) {
				b.WriteString(l)
			}
		}
		return b.String()
	}
	s.T.Fatalf("no such command: %q", words)
	return ""
}

func describeResult(rej interface{ Error() string }, body any) string {
	if body == nil {
		return rej.Error() + "\n"
	}
	switch r := body.(type) {
	case *kvpart.PutResult:
		return describeOp(kvpart.OpResult{Put: r})
	case *kvpart.DeleteResult:
		return describeOp(kvpart.OpResult{Delete: r})
	case *kvpart.TxnResult:
		return describeOp(kvpart.OpResult{Txn: r})
	}
	return fmt.Sprintf("%+v\n", body)[1:]
}

func describeOp(r kvpart.OpResult) string {
	switch {
	case r.Put != nil:
		s := fmt.Sprintf("put at %d\n", r.Put.Revision)
		if r.Put.Prev != nil {
			s += "was " + describeKV(r.Put.Prev)
		}
		return s
	case r.Range != nil:
		return describeRange(r.Range)
	case r.Delete != nil:
		s := fmt.Sprintf("deleted %d at %d\n", r.Delete.Deleted, r.Delete.Revision)
		for i := range r.Delete.Prevs {
			s += "was " + describeKV(&r.Delete.Prevs[i])
		}
		return s
	case r.Txn != nil:
		s := fmt.Sprintf("txn %t at %d\n", r.Txn.Succeeded, r.Txn.Revision)
		for i := range r.Txn.Ops {
			for l := range strings.Lines(describeOp(r.Txn.Ops[i])) {
				s += "- " + l
			}
		}
		return s
	}
	return "nothing\n"
}

func describeRange(r *kvpart.RangeResult) string {
	var b bytes.Buffer
	for i := range r.KVs {
		b.WriteString(describeKV(&r.KVs[i]))
	}
	more := ""
	if r.More {
		more = ", more"
	}
	fmt.Fprintf(&b, "count %d%s\n", r.Count, more)
	return b.String()
}

func describeKV(kv *kvpart.KeyValue) string {
	s := fmt.Sprintf("%q=%q create %d mod %d version %d", kv.Key, kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version)
	if kv.Lease != 0 {
		s += fmt.Sprintf(" lease %d", kv.Lease)
	}
	return s + "\n"
}

func describeEvents(evs []Event) string {
	var b strings.Builder
	for i := range evs {
		verb := "put"
		if evs[i].Type == EventDelete {
			verb = "delete"
		}
		b.WriteString(verb + " " + describeKV(&evs[i].KV))
	}
	return b.String()
}
