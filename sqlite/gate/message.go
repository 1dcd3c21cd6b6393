package gate

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfastdb/holdfast/sqlite/place"
)

// Ack is the level that a commit waits for.
type Ack byte

// As in HELLO and STATE; Default is the agent's own setting.
const (
	Default Ack = 0
	Local   Ack = 1 // the database's own files
	Archive Ack = 2 // the bucket
)

func (a Ack) String() string {
	switch a {
	case Local:
		return "local"
	case Archive:
		return "archive"
	}
	return "default"
}

// ParseAck reads what people write.
func ParseAck(s string) (Ack, error) {
	switch s {
	case "local":
		return Local, nil
	case "archive":
		return Archive, nil
	}
	return Default, fmt.Errorf("ack %q is neither local nor archive", s)
}

// Refuse is why write transactions are refused.
type Refuse byte

// As in STATE.
const (
	Open     Refuse = 0
	Fenced   Refuse = 1 // another agent has the replica
	InDoubt  Refuse = 2 // a commit was not stored in time
	Stopping Refuse = 3
	Opening  Refuse = 4 // to be waited for
)

// Code is how the wait for a commit ended.
type Code byte

// As in DONE.
const (
	Done      Code = 0
	NotStored Code = 1
	WasFenced Code = 2
	Refused   Code = 3
)

// Kinds of messages.
const (
	kindHello  = 1
	kindCommit = 2
	kindNote   = 3
	kindStatus = 4
	kindState  = 129
	kindDone   = 130
	kindText   = 131
)

const (
	version1 = 1 // HELLO names the database by its path alone
	version2 = 2 // HELLO has devices and inodes as well
	maxPath  = 4096
	maxText  = 4096
	maxBytes = maxPath + 64 // of a message
)

// Hello is a connection's first message.
type Hello struct {
	Ack  Ack
	PID  uint32
	Path string
	// File is the file that the connection has open, Dir the directory of its WAL. Zero: not known, or not there. A HELLO of version 1 has neither.
	File, Dir place.ID
}

// Commit asks to be told when a commit is captured or stored.
type Commit struct {
	Seq    uint32
	Stored bool // or captured
	// Lone: the connection has the database for itself; Salt and Frame say nothing then.
	Lone  bool
	Salt  [8]byte
	Frame uint32
}

// State is the agent's state of a database, for an extension.
type State struct {
	Managed   bool
	Ack       Ack
	Refuse    Refuse
	Hold      bool
	TimeoutMS uint32
	Text      string
}

var errMessage = errors.New("malformed message")

// message is one from an extension, decoded: hello, commit or neither.
type message struct {
	kind   byte
	hello  Hello
	commit Commit
	seq    uint32 // of STATUS
}

// decode reads a message of an extension (docs/formats/sqlite.md).
func decode(b []byte) (m message, err error) {
	if len(b) == 0 {
		return m, errMessage
	}
	m.kind = b[0]
	le := binary.LittleEndian
	switch b = b[1:]; m.kind {
	case kindHello:
		head := 6
		if len(b) > 0 && b[0] == version2 {
			head = 6 + 32
		}
		if len(b) <= head || len(b) > head+maxPath || b[0] != version1 && b[0] != version2 || b[1] > byte(Archive) {
			return m, errMessage
		}
		m.hello = Hello{Ack: Ack(b[1]), PID: le.Uint32(b[2:]), Path: string(b[head:])}
		if b[0] == version2 {
			m.hello.File = place.ID{Dev: le.Uint64(b[6:]), Ino: le.Uint64(b[14:])}
			m.hello.Dir = place.ID{Dev: le.Uint64(b[22:]), Ino: le.Uint64(b[30:])}
		}
	case kindCommit:
		if len(b) != 18 || b[4] < 1 || b[4] > 2 || b[5] > 1 {
			return m, errMessage
		}
		m.commit = Commit{Seq: le.Uint32(b), Stored: b[4] == 2, Lone: b[5] == 1, Salt: [8]byte(b[6:14]), Frame: le.Uint32(b[14:])}
	case kindNote:
		if len(b) != 0 {
			return m, errMessage
		}
	case kindStatus:
		if len(b) != 4 {
			return m, errMessage
		}
		m.seq = le.Uint32(b)
	default:
		return m, errMessage
	}
	return m, nil
}

// Encode returns the bytes of a HELLO of version 2, as an extension sends it.
func (h Hello) Encode() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte{kindHello, version2, byte(h.Ack)}, h.PID)
	for _, id := range []place.ID{h.File, h.Dir} {
		b = le.AppendUint64(le.AppendUint64(b, id.Dev), id.Ino)
	}
	return append(b, h.Path...)
}

func cut(text string) string { return text[:min(len(text), maxText)] }

func (s State) encode() []byte {
	b := []byte{kindState, flag(s.Managed), byte(s.Ack), byte(s.Refuse), flag(s.Hold)}
	b = binary.LittleEndian.AppendUint32(b, s.TimeoutMS)
	return append(b, cut(s.Text)...)
}

func encodeDone(seq uint32, code Code, text string) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{kindDone}, seq)
	return append(append(b, byte(code)), cut(text)...)
}

func encodeText(seq uint32, text string) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{kindText}, seq), cut(text)...)
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}
