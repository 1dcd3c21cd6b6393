package wire

import "net"

// NetConn is the connection below: serve/server closes it when the authority of the client's certificate is dropped.
func (p *prefixed) NetConn() net.Conn { return p.Conn }
