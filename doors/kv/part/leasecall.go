package part

import (
	"encoding/binary"
	"errors"
)

// The leader keeps renewals and remaining times of leases outside the log, so a member asks the leader about them. The payloads of those
// two calls (docs/formats/lease-call.md) are defined here, where both the asking door and the answering worker can see them.

// Names of the calls.
const (
	CallLeaseKeepAlive = "lease.keepalive"
	CallLeaseTTL       = "lease.ttl"
)

// LeaseTime is the leader's answer about a lease, in seconds. Granted 0 means that there is no such lease.
type LeaseTime struct{ Granted, Remaining int64 }

var errLeaseCall = errors.New("malformed lease call")

// AppendLeaseID encodes the request of both calls.
func AppendLeaseID(dst []byte, id int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(id))
}

// DecodeLeaseID reads what AppendLeaseID wrote.
func DecodeLeaseID(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, errLeaseCall
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// AppendLeaseTime encodes the answer of both calls.
func AppendLeaseTime(dst []byte, t LeaseTime) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.Granted))
	return binary.BigEndian.AppendUint64(dst, uint64(t.Remaining))
}

// DecodeLeaseTime reads what AppendLeaseTime wrote. Negative times are refused: the leader never sends one.
func DecodeLeaseTime(b []byte) (LeaseTime, error) {
	if len(b) != 16 {
		return LeaseTime{}, errLeaseCall
	}
	t := LeaseTime{Granted: int64(binary.BigEndian.Uint64(b)), Remaining: int64(binary.BigEndian.Uint64(b[8:]))}
	if t.Granted < 0 || t.Remaining < 0 {
		return LeaseTime{}, errLeaseCall
	}
	return t, nil
}
