package machine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/core/machine"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// DescribeRow prints one row of this machine as it lies in the store, for people: payloads, custom data and headers as their lengths or
// names. A row that does not decode is printed as such.
func DescribeRow(key, value []byte) string { return machine.DescribeRow(key, value, describeRow) }

func describeRow(key, value []byte) (string, error) {
	if len(key) < 2 || key[0] != letter {
		return "", errCorrupt
	}
	switch rest := key[2:]; key[1] {
	case spaceCounters:
		c, err := decodeCounters(value)
		if err != nil {
			return "", err
		}
		return c.String(), nil
	case spaceGid:
		number, err := decodeNumber(value)
		return fmt.Sprintf("gid %q is transaction %d", rest, number), err
	case spaceDefinition:
		number, err := splitNumberKey(key)
		if err != nil {
			return "", err
		}
		d, err := decodeDefinition(value)
		if err != nil {
			return "", err
		}
		text := fmt.Sprintf("transaction %d: gid %q, %s, began as %s", number, d.Gid, &d.Definition, &d.head)
		if len(d.inline) == 0 {
			return text, nil
		}
		return describeBranches(text, d.inline)
	case spaceHead:
		number, err := splitNumberKey(key)
		if err != nil {
			return "", err
		}
		h, err := decodeHead(value)
		return fmt.Sprintf("transaction %d is %s", number, &h), err
	case spaceBranches:
		if len(key) != 14 {
			return "", errCorrupt
		}
		number, _ := splitNumberKey(key[:10])
		return describeBranches(fmt.Sprintf("branches %x of transaction %d", key[10:], number), value)
	case spaceTimer:
		t, err := splitTimerKey(key)
		return fmt.Sprintf("transaction %d is due at tick %d", t.Number, t.Tick), err
	case spaceRetired:
		t, err := splitTimerKey(key)
		if err != nil {
			return "", err
		}
		all, err := decodeRetired(value)
		text := fmt.Sprintf("to forget at tick %d:", t.Tick)
		for i := range all {
			text += " " + strconv.FormatUint(all[i].number, 10)
		}
		return text, err
	case spaceTopic:
		t, err := decodeTopic(string(rest), value)
		if err != nil {
			return "", err
		}
		text := fmt.Sprintf("topic %q: number %d, version %d", t.Name, t.ID, t.Version)
		for _, s := range t.Subscribers {
			text += fmt.Sprintf(", %q", s.URL)
		}
		return text, nil
	}
	return "", errCorrupt
}

func describeBranches(text string, row []byte) (string, error) {
	all, err := takeBranches(nil, row)
	for i := range all {
		b := &all[i]
		text += fmt.Sprintf(", %q %s %q", b.ID, b.Op, b.URL)
		if len(b.Payload) > 0 {
			text += fmt.Sprintf(" %d bytes", len(b.Payload))
		}
	}
	return text, err
}

// String prints a head on one line, its branches as the numbers of each status.
func (h *head) String() string {
	var b strings.Builder
	b.WriteString(h.status.String())
	if h.due != Never {
		fmt.Fprintf(&b, ", due at tick %d, interval %d ms", h.due, h.interval)
	}
	if h.retries != 0 {
		fmt.Fprintf(&b, ", retries %d", h.retries)
	}
	if h.passes != 0 {
		fmt.Fprintf(&b, ", passes %d", h.passes)
	}
	if h.reason != "" {
		fmt.Fprintf(&b, ", because %q", clip([]byte(h.reason)))
	}
	if h.result != "" {
		fmt.Fprintf(&b, ", result of %d bytes", len(h.result))
	}
	for _, status := range []sagapart.Status{sagapart.Prepared, sagapart.Succeed, sagapart.Failed} {
		n := 0
		for i := range h.branches {
			if h.branches[i].status == status {
				n++
			}
		}
		if n > 0 {
			fmt.Fprintf(&b, ", %d branches %s", n, status)
		}
	}
	return b.String()
}

// String prints the counters on one line.
func (c *counters) String() string {
	text := fmt.Sprintf("next number %d", c.next)
	for s := sagapart.Prepared; s <= sagapart.Failed; s++ {
		text += fmt.Sprintf(", %d %s", c.counts[s], s)
	}
	text += fmt.Sprintf(", %d topics", c.counts[countTopics])
	if c.held {
		text += ", held"
	}
	if c.elapsed != 0 {
		text += fmt.Sprintf(", clock %d ms ahead of the tick", c.elapsed)
	}
	if c.retention != 0 {
		text += fmt.Sprintf(", what ends is kept for %d ms", c.retention)
	}
	return text
}

// census counts transactions and topics.
type census struct{ sagas, topics int64 }

func (c *census) Row(key, _ []byte) error {
	if len(key) > 1 {
		switch key[1] {
		case spaceDefinition:
			c.sagas++
		case spaceTopic:
			c.topics++
		}
	}
	return nil
}

func (c *census) Counts() []machine.Count {
	return []machine.Count{{Name: "sagas", N: c.sagas}, {Name: "topics", N: c.topics}}
}
