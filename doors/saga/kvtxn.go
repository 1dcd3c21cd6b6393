package saga

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	kvpart "github.com/holdfastdb/holdfast/doors/kv/part"
)

// txn reads a TxnRequest as etcd's JSON gateway has it. It has compares, and the puts and deletions for the case that all hold. If one does
// not, nothing is to happen. Reads would have no answer here to be in.
func (v value) txn() (*kvpart.Txn, error) {
	t := &kvpart.Txn{}
	err := v.members(func(name string, v value) error {
		switch name {
		case "compare":
			return v.elements(func(v value) error {
				if len(t.Compare) == maxOps {
					return errManyOps
				}
				c, err := v.compare()
				t.Compare = append(t.Compare, c)
				return err
			})
		case "success":
			return v.elements(func(v value) error {
				if len(t.Then) == maxOps {
					return errManyOps
				}
				op, err := v.op()
				t.Then = append(t.Then, op)
				return err
			})
		case "failure":
			return v.elements(func(value) error {
				return errors.New("failure: where a compare is false nothing is written, so there is nothing to be done")
			})
		}
		return fmt.Errorf("%s: there are compare and success", quote(name))
	})
	if err == nil && len(t.Then) == 0 {
		err = errors.New("success: there is nothing to be done")
	}
	return t, err
}

// maxOps bounds the compares and the changes that are read at all; how many there may be is for the door of keys to say.
const maxOps = 4096

var errManyOps = fmt.Errorf("more than %d compares or changes in one transaction", maxOps)

// words are the values of an enumeration.
type words map[string]uint8

var (
	compareResults = words{"EQUAL": uint8(kvpart.CompareEqual), "GREATER": uint8(kvpart.CompareGreater), "LESS": uint8(kvpart.CompareLess),
		"NOT_EQUAL": uint8(kvpart.CompareNotEqual)}
	compareTargets = words{"VERSION": uint8(kvpart.CompareVersion), "CREATE": uint8(kvpart.CompareCreate), "MOD": uint8(kvpart.CompareMod),
		"VALUE": uint8(kvpart.CompareValue), "LEASE": uint8(kvpart.CompareLease)}
)

// of is the number of a word, or the number itself.
func (w words) of(name string, v value) (uint8, error) {
	s, err := v.text()
	if err != nil {
		return 0, err
	}
	if n, ok := w[s]; ok {
		return n, nil
	}
	for _, n := range w { // any order: one is looked for
		if s == strconv.Itoa(int(n)) {
			return n, nil
		}
	}
	return 0, fmt.Errorf("compare: %s: %s is none", name, v.shown())
}

func (v value) compare() (c kvpart.Compare, err error) {
	err = v.members(func(name string, v value) (err error) {
		switch name {
		case "key":
			c.Key, err = v.base64()
		case "range_end", "rangeEnd":
			c.End, err = v.base64()
		case "result":
			var n uint8
			n, err = compareResults.of(name, v)
			c.Result = kvpart.CompareResult(n)
		case "target":
			var n uint8
			n, err = compareTargets.of(name, v)
			c.Target = kvpart.CompareTarget(n)
		case "version", "create_revision", "createRevision", "mod_revision", "modRevision", "lease":
			c.Int, err = v.int()
		case "value":
			c.Value, err = v.base64()
		default:
			err = fmt.Errorf("compare: there is no %s", quote(name))
		}
		return err
	})
	return c, err
}

func (v value) op() (op kvpart.Op, err error) {
	err = v.members(func(name string, v value) (err error) {
		switch name {
		case "request_put", "requestPut":
			op.Put, err = v.put()
		case "request_delete_range", "requestDeleteRange":
			op.Delete, err = v.deletion()
		default:
			err = fmt.Errorf("success: there are request_put and request_delete_range, no %s", quote(name))
		}
		return err
	})
	if err == nil && (op.Put == nil) == (op.Delete == nil) {
		err = errors.New("success: each element has one of request_put and request_delete_range")
	}
	return op, err
}

func (v value) put() (*kvpart.Put, error) {
	p := &kvpart.Put{}
	return p, v.members(func(name string, v value) (err error) {
		switch name {
		case "key":
			p.Key, err = v.base64()
		case "value":
			p.Value, err = v.base64()
		case "lease":
			p.Lease, err = v.int()
		case "ignore_value", "ignoreValue":
			p.IgnoreValue, err = v.flag()
		case "ignore_lease", "ignoreLease":
			p.IgnoreLease, err = v.flag()
		default:
			err = fmt.Errorf("request_put: there is no %s here", quote(name))
		}
		return err
	})
}

func (v value) deletion() (*kvpart.DeleteRange, error) {
	del := &kvpart.DeleteRange{}
	return del, v.members(func(name string, v value) (err error) {
		switch name {
		case "key":
			del.Key, err = v.base64()
		case "range_end", "rangeEnd":
			del.End, err = v.base64()
		default:
			err = fmt.Errorf("request_delete_range: there is no %s here", quote(name))
		}
		return err
	})
}

// base64 is bytes in any of the forms that etcd's gateway takes.
func (v value) base64() ([]byte, error) {
	s, err := v.bytes()
	if err != nil {
		return nil, err
	}
	for _, form := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if b, err := form.DecodeString(string(s)); err == nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("%s is no base64", v.shown())
}
