package wire

import (
	"encoding/binary"
	"errors"
)

// nonceBytes is the length of the random bytes that a client's password is hashed with.
const nonceBytes = 20

// greeting is the server's first packet, HandshakeV10.
type greeting struct {
	version      string
	id           uint32
	nonce        [nonceBytes]byte // without zero bytes
	capabilities Capabilities
	collation    byte
	status       Status
	plugin       string
}

func (g *greeting) append(b []byte) []byte {
	b = append(b, 10)
	b = append(append(b, g.version...), 0)
	b = binary.LittleEndian.AppendUint32(b, g.id)
	b = append(append(b, g.nonce[:8]...), 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(g.capabilities))
	b = append(b, g.collation)
	b = binary.LittleEndian.AppendUint16(b, uint16(g.status))
	b = binary.LittleEndian.AppendUint16(b, uint16(g.capabilities>>16))
	b = append(b, nonceBytes+1)
	b = append(b, make([]byte, 10)...)
	b = append(append(b, g.nonce[8:]...), 0)
	return append(append(b, g.plugin...), 0)
}

// login is the client's answer to the greeting, HandshakeResponse41, or what COM_CHANGE_USER has of it.
type login struct {
	capabilities Capabilities
	most         uint32 // the client's own max_allowed_packet
	collation    byte
	user         string
	response     []byte // to the nonce; lies in the packet
	database     string
	plugin       string
	attributes   map[string]string
}

var errLogin = errors.New("bad handshake")

// mostAttributes bounds the bytes of a client's connection attributes, as MySQL does.
const mostAttributes = 64 << 10

// parseStart takes the fields that SSLRequest and HandshakeResponse41 begin with.
func parseStart(f *fields) (l login, err error) {
	l.capabilities = Capabilities(f.uint32())
	l.most = f.uint32()
	l.collation = f.byte()
	f.take(23)
	if f.bad || l.capabilities&protocol41 == 0 {
		return l, errLogin
	}
	return l, nil
}

// parse takes what follows the start of a HandshakeResponse41.
func (l *login) parse(f *fields) error {
	l.user = string(f.text())
	switch {
	case l.capabilities&pluginAuthLenenc != 0:
		l.response = f.string()
	case l.capabilities&secureConnection != 0:
		l.response = f.take(uint64(f.byte()))
	default:
		l.response = f.text()
	}
	if l.capabilities&ConnectWithDB != 0 {
		l.database = string(f.text())
	}
	if l.capabilities&pluginAuth != 0 {
		l.plugin = string(f.text())
	}
	return l.parseAttributes(f)
}

// parseChange takes COM_CHANGE_USER's fields. The capabilities are those of the login.
func (l *login) parseChange(f *fields) error {
	l.user = string(f.text())
	if l.capabilities&secureConnection != 0 {
		l.response = f.take(uint64(f.byte()))
	} else {
		l.response = f.text()
	}
	l.database = string(f.text())
	if len(f.b) >= 2 {
		l.collation = byte(f.uint16())
	}
	if l.capabilities&pluginAuth != 0 {
		l.plugin = string(f.text())
	}
	return l.parseAttributes(f)
}

func (l *login) parseAttributes(f *fields) error {
	if l.capabilities&connectAttrs != 0 && len(f.b) > 0 {
		all := fields{b: f.string()}
		if len(all.b) > mostAttributes {
			return errLogin
		}
		l.attributes = map[string]string{}
		for len(all.b) > 0 {
			key := string(all.string())
			value := string(all.string())
			if all.bad {
				return errLogin
			}
			l.attributes[key] = value
		}
	}
	if f.bad {
		return errLogin
	}
	return nil
}
