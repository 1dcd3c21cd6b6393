package main

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Numbers in a drawn request that stand for others. The two servers need not be at the same revision, and lease ids they choose themselves
// differ. Both marks are far from any number that occurs, and from the largest.
const (
	revisionMark = int64(1) << 58 // + n: the revision n after the script's first
	leaseMark    = int64(1) << 59 // + n: the n-th lease whose id the server chose
	markWindow   = int64(1) << 20
)

func marked(v, mark int64) bool { return v > mark-markWindow && v < mark+markWindow }

// frame is what makes one side's numbers comparable with the other's.
type frame struct {
	first int64 // revision when the script began

	mu     sync.Mutex // guards the rest: a script adds leases while its ears read
	leases []int64    // ids the server chose, in the order they were asked for; 0 where it refused
}

func (f *frame) granted(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leases = append(f.leases, id)
}

// lease is the number of a lease whose id the server chose.
func (f *frame) lease(id int64) (n int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n = slices.Index(f.leases, id)
	return n, n >= 0 && id != 0
}

// fill returns m with this side's numbers in place of marks.
func (f *frame) fill(m proto.Message) proto.Message {
	m = proto.Clone(m)
	f.fillIn(m.ProtoReflect())
	return m
}

func (f *frame) fillIn(m protoreflect.Message) {
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.IsList() && d.Kind() == protoreflect.MessageKind:
			for i := range v.List().Len() {
				f.fillIn(v.List().Get(i).Message())
			}
		case d.Kind() == protoreflect.MessageKind:
			f.fillIn(v.Message())
		case d.Kind() == protoreflect.Int64Kind && !d.IsList():
			m.Set(d, protoreflect.ValueOfInt64(f.number(v.Int())))
		}
		return true
	})
}

func (f *frame) number(v int64) int64 {
	switch {
	case marked(v, revisionMark):
		return f.first + v - revisionMark
	case marked(v, leaseMark):
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.leases[v-leaseMark]
	}
	return v
}

// text is a message as one line, in the order of its field numbers. Fields that may differ between two runs of the same server are made
// relative or left out. Protobuf's own text format is deliberately not the same twice.
func (f *frame) text(m proto.Message) string {
	var b strings.Builder
	f.write(&b, m.ProtoReflect())
	return leaseOfSession.ReplaceAllString(b.String(), "${1}L")
}

func (f *frame) write(b *strings.Builder, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	var set []protoreflect.FieldDescriptor
	for i := range fields.Len() {
		if m.Has(fields.Get(i)) {
			set = append(set, fields.Get(i))
		}
	}
	slices.SortFunc(set, func(x, y protoreflect.FieldDescriptor) int { return int(x.Number()) - int(y.Number()) })
	b.WriteByte('{')
	for i, d := range set {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(string(d.Name()) + ":")
		v := m.Get(d)
		if !d.IsList() {
			f.value(b, d, v)
			continue
		}
		var items []string
		for i := range v.List().Len() {
			var item strings.Builder
			f.value(&item, d, v.List().Get(i))
			items = append(items, item.String())
		}
		if orderless[d.FullName()] {
			slices.Sort(items)
		}
		b.WriteString("[" + strings.Join(items, " ") + "]")
	}
	if n := len(m.GetUnknown()); n > 0 {
		fmt.Fprintf(b, " (%d bytes unknown)", n)
	}
	b.WriteByte('}')
}

func (f *frame) value(b *strings.Builder, d protoreflect.FieldDescriptor, v protoreflect.Value) {
	name := string(d.Name())
	switch d.Kind() {
	case protoreflect.MessageKind:
		f.write(b, v.Message())
	case protoreflect.BytesKind:
		b.WriteString(short(ofSession.ReplaceAll(v.Bytes(), []byte("/session/L"))))
	case protoreflect.StringKind:
		b.WriteString(strconv.Quote(v.String()))
	case protoreflect.EnumKind:
		if e := d.Enum().Values().ByNumber(v.Enum()); e != nil {
			b.WriteString(string(e.Name()))
		} else {
			fmt.Fprintf(b, "%d", v.Enum())
		}
	case protoreflect.Uint64Kind:
		if name == "cluster_id" || name == "member_id" || name == "raft_term" {
			b.WriteString("set")
			return
		}
		b.WriteString(v.String())
	case protoreflect.Int64Kind:
		b.WriteString(f.int64(name, v.Int()))
	default:
		b.WriteString(v.String())
	}
}

func (f *frame) int64(name string, v int64) string {
	switch {
	case marked(v, revisionMark):
		return fmt.Sprintf("%+d", v-revisionMark)
	case marked(v, leaseMark):
		return fmt.Sprintf("L%d", v-leaseMark)
	case name == "ID" || name == "lease":
		if n, ok := f.lease(v); ok {
			return fmt.Sprintf("L%d", n)
		}
	case (strings.HasSuffix(name, "revision") || name == "rev") && v > 0 && f.first > 0:
		return fmt.Sprintf("%+d", v-f.first)
	}
	return strconv.FormatInt(v, 10)
}

// ofSession is the end of a key whose lease the server has made (leaseless).
var ofSession = regexp.MustCompile(`/session/[0-9a-f]+$`)

// leaseOfSession is that lease behind such a key. A watch may be told of the key before the script hears of the lease.
var leaseOfSession = regexp.MustCompile(`(/session/L"[^{}]*? lease:)L?[0-9]+`)

// short is a quoted byte string; of a long one its beginning, length and hash.
func short(b []byte) string {
	if len(b) <= 80 {
		return strconv.Quote(string(b))
	}
	h := fnv.New32a()
	_, _ = h.Write(b) // never fails
	return fmt.Sprintf("%q…(%d bytes, %08x)", b[:8], len(b), h.Sum32())
}

// orderless are the lists the original answers in the order of a map.
var orderless = map[protoreflect.FullName]bool{
	"etcdserverpb.LeaseLeasesResponse.leases":   true,
	"etcdserverpb.LeaseTimeToLiveResponse.keys": true,
}

// timeless takes out of an answer what is left of a lease's time, if that is plausible.
func timeless(m proto.Message) {
	if r, ok := m.(*pb.LeaseTimeToLiveResponse); ok && r.TTL >= 0 && r.TTL <= r.GrantedTTL && r.TTL > r.GrantedTTL-30 {
		r.TTL = r.GrantedTTL
	}
}
