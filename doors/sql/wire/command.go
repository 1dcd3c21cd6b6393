package wire

import (
	"context"
	"math"
)

// The commands of the text and binary protocols that are answered. Source: MySQL 8.0, "Command Phase". Every other command is answered with
// 1047, and the connection stays.
const (
	comQuit            = 0x01
	comInitDB          = 0x02
	comQuery           = 0x03
	comFieldList       = 0x04
	comStatistics      = 0x09
	comPing            = 0x0e
	comChangeUser      = 0x11
	comStmtPrepare     = 0x16
	comStmtExecute     = 0x17
	comStmtSendLong    = 0x18
	comStmtClose       = 0x19
	comStmtReset       = 0x1a
	comSetOption       = 0x1b
	comStmtFetch       = 0x1c
	comResetConnection = 0x1f
)

// shows are the commands whose answers may show what is in tables, or what they are.
var shows = [256]bool{comInitDB: true, comQuery: true, comFieldList: true, comStmtPrepare: true, comStmtExecute: true}

// run runs one command and builds its answer. false: the connection ends.
func (c *conn) run(ctx context.Context, b []byte) bool {
	if len(b) == 0 {
		c.fail(Errorf(ErrMalformed, "Malformed communication packet"))
		return true
	}
	f := fields{b: b[1:]}
	var err error
	switch b[0] {
	case comQuit:
		return false
	case comInitDB:
		err = c.session.UseDatabase(ctx, string(f.rest()))
		c.okUnless(err)
	case comQuery:
		c.query(ctx, f.rest())
	case comFieldList:
		c.fieldList(ctx, &f)
	case comStatistics:
		c.packet(func(b []byte) []byte { return append(b, c.session.Statistics()...) })
	case comPing:
		c.okUnless(nil)
	case comChangeUser:
		return c.changeUser(&f)
	case comStmtPrepare:
		c.prepare(ctx, f.rest())
	case comStmtExecute:
		c.execute(ctx, &f)
	case comStmtSendLong:
		c.sendLong(&f)
	case comStmtClose:
		if s := c.stmts[f.uint32()]; s != nil && !f.bad {
			delete(c.stmts, idOf(b))
			c.free(s)
		}
	case comStmtReset:
		c.reset(&f)
	case comSetOption:
		c.setOption(&f)
	case comStmtFetch:
		c.fail(Errorf(ErrNoCursor, "The statement (%d) has no open cursor.", f.uint32()))
	case comResetConnection:
		c.freeAll()
		c.okUnless(c.session.Reset(ctx))
	default:
		c.fail(Errorf(ErrUnknownCommand, "Unknown command"))
	}
	return true
}

// okUnless answers with an OK packet, or with err.
func (c *conn) okUnless(err error) {
	if err != nil {
		c.fail(asError(err))
		return
	}
	c.ok(0, Done{}, c.session.Status())
}

// answered looks whether a Session that returned err has finished its results, and adds the error if there is one.
func (c *conn) answered(a *Answer, err error) {
	if a.row { // half a row: the client must not take the error for its rest
		c.out.buf = c.out.buf[:c.out.head]
	}
	switch {
	case err != nil:
		c.fail(asError(err))
	case a.open || a.results == 0 || a.more: // a client would wait for the rest
		c.fail(Errorf(ErrUnknown, "the statement ended before its answer did: this is a defect of the server"))
	}
}

func (c *conn) query(ctx context.Context, text []byte) {
	a := Answer{c: c}
	c.answered(&a, c.session.Query(ctx, text, &a))
}

func (c *conn) fieldList(ctx context.Context, f *fields) {
	table := string(f.text())
	columns, err := c.session.Fields(ctx, table, string(f.rest()))
	if err != nil {
		c.fail(asError(err))
		return
	}
	for i := range columns {
		c.packet(func(b []byte) []byte { return append(columns[i].append(b), 0xfb) }) // no default is told
	}
	c.eof(0, c.session.Status())
}

// changeUser logs in anew on the same connection. After a failure the connection ends, as in MySQL.
func (c *conn) changeUser(f *fields) bool {
	l := login{capabilities: c.client.Capabilities, collation: c.client.Collation}
	if l.parseChange(f) != nil {
		c.ends(Errorf(ErrHandshake, "Bad handshake"))
		return false
	}
	if err := c.prove(&l); err != nil {
		c.ends(err)
		return false
	}
	c.freeAll()
	c.session.Close()
	c.session = nil
	c.server.leave(c)
	next := c.client
	next.AccountHost = c.account.Host
	next.User, next.Database, next.Collation, next.Attributes = l.user, l.database, l.collation, l.attributes
	c.client = next
	session, err := c.server.Open(c.parent, &c.client)
	if err != nil {
		c.ends(err)
		return false
	}
	c.session = session
	c.server.enter(c)
	c.okUnless(nil)
	return true
}

func (c *conn) setOption(f *fields) {
	switch option := f.uint16(); {
	case f.bad || option > 1:
		c.fail(Errorf(ErrUnknownCommand, "Unknown command"))
		return
	case option == 0:
		c.client.Capabilities |= MultiStatements
	default:
		c.client.Capabilities &^= MultiStatements
	}
	c.eof(0, c.session.Status())
}

func (c *conn) prepare(ctx context.Context, text []byte) {
	if n := c.server.statements.Add(1); n > orElse(c.server.MaxStatements, defaultMaxStatements) {
		c.server.statements.Add(-1)
		c.fail(Errorf(ErrTooManyStatements, "Can't create more than max_prepared_stmt_count statements (current value: %d)", n-1))
		return
	}
	p, err := c.session.Prepare(ctx, text)
	if err != nil {
		c.server.statements.Add(-1)
		c.fail(asError(err))
		return
	}
	count, columns := p.Shape()
	s := &statement{prepared: p, count: uint16(count)}
	if count > math.MaxUint16 {
		c.free(s)
		c.fail(Errorf(ErrTooManyParams, "Prepared statement contains too many placeholders"))
		return
	}
	if c.stmts == nil {
		c.stmts = map[uint32]*statement{}
	}
	c.lastID++
	c.stmts[c.lastID] = s
	id := c.lastID
	c.packet(func(b []byte) []byte {
		b = append(b, 0, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
		return append(b, byte(len(columns)), byte(len(columns)>>8), byte(count), byte(count>>8), 0, 0, 0)
	})
	if count > 0 {
		params := make([]Column, count)
		for i := range params {
			params[i] = Column{Name: "?", Collation: 63, Type: VarString, Flags: Binary}
		}
		c.define(params, c.session.Status())
	}
	if len(columns) > 0 {
		c.define(columns, c.session.Status())
	}
}

// free gives a statement back.
func (c *conn) free(s *statement) {
	c.forget(s)
	s.prepared.Close()
	c.server.statements.Add(-1)
}

func (c *conn) freeAll() {
	for _, s := range c.stmts { // any order: each is freed by itself
		c.free(s)
	}
	c.stmts = nil
}

func idOf(b []byte) uint32 {
	f := fields{b: b[1:]}
	return f.uint32()
}

// statement finds the statement that a command names.
func (c *conn) statement(f *fields, command string) (*statement, bool) {
	id := f.uint32()
	if s := c.stmts[id]; s != nil && !f.bad {
		return s, true
	}
	c.fail(Errorf(ErrUnknownStatement, "Unknown prepared statement handler (%d) given to %s", id, command))
	return nil, false
}

func (c *conn) execute(ctx context.Context, f *fields) {
	s, ok := c.statement(f, "mysqld_stmt_execute")
	if !ok {
		return
	}
	// A cursor may be asked for. The whole result is sent instead, which the protocol allows and clients expect.
	f.take(1 + 4)
	if s.pieces != nil && s.pieces.failed != nil {
		c.fail(asError(s.pieces.failed))
		c.forget(s)
		return
	}
	if n := int(s.count); n > cap(c.params) {
		c.params = make([]Param, n)
	}
	params := c.params[:s.count]
	if err := s.read(f, params); err != nil {
		c.fail(asError(err))
		return
	}
	a := Answer{c: c, binary: true}
	c.answered(&a, c.session.Execute(ctx, s.prepared, params, &a))
	if clear(params); cap(params) > keptParams {
		c.params = nil
	}
	c.forget(s)
}

// keptParams is for how many parameters a connection keeps room between two commands.
const keptParams = 16

// sendLong adds a piece to a parameter. The command has no answer: its error is that of the execution.
func (c *conn) sendLong(f *fields) {
	s := c.stmts[f.uint32()]
	param := int(f.uint16())
	data := f.rest()
	if s == nil {
		return
	}
	if s.pieces == nil {
		s.pieces = &pieces{}
	}
	p := s.pieces
	switch {
	case f.bad || param >= int(s.count):
		p.failed = Errorf(ErrArguments, "Incorrect arguments to mysqld_stmt_send_long_data")
	case c.long+len(data) > orElse(c.server.MaxPacket, defaultMaxPacket):
		c.drop(p)
		p.failed = Errorf(ErrPacketTooLarge, "Parameters sent in pieces are longer than 'max_allowed_packet' bytes")
	case p.failed != nil:
	case c.server.Room != nil && !c.server.Room.Draw(int64(len(data))):
		c.drop(p)
		p.failed = Errorf(ErrOutOfMemory, "Out of memory for parameters sent in pieces; try again, or raise the server's --memory")
	default:
		if p.of == nil {
			p.of = map[int][]byte{}
		}
		c.long += len(data)
		p.of[param] = append(p.of[param], data...)
	}
}

// drop gives the memory of pieces back.
func (c *conn) drop(p *pieces) {
	n := 0
	for _, data := range p.of { // any order: a sum
		n += len(data)
	}
	c.long -= n
	if c.server.Room != nil && n > 0 {
		c.server.Room.Return(int64(n))
	}
	p.of = nil
}

// forget drops the pieces of a statement's parameters.
func (c *conn) forget(s *statement) {
	if s.pieces != nil {
		c.drop(s.pieces)
		s.pieces = nil
	}
}

func (c *conn) reset(f *fields) {
	if s, ok := c.statement(f, "mysqld_stmt_reset"); ok {
		c.forget(s)
		c.okUnless(nil)
	}
}
