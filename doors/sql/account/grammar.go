package account

import (
	"strings"

	eident "github.com/holdfastdb/holdfast/core/entry/ident"
)

// What a statement is read by, behind its first words. Of MySQL's clauses those are taken that mean something here, and the rest is refused.

func (p *parser) create() *Statement {
	st := &Statement{Verb: Create, If: p.took("if", "not", "exists")}
	st.Users = p.users(func(u *User) {
		if p.identified(u); u.Self {
			p.wrong()
		}
	})
	p.over("CREATE USER")
	return st
}

func (p *parser) alter() *Statement {
	st := &Statement{Verb: Alter, If: p.took("if", "exists")}
	st.Users = p.users(func(u *User) {
		if !p.identified(u) {
			p.over("ALTER USER")
			p.refuse("ALTER USER without IDENTIFIED BY")
		}
	})
	p.over("ALTER USER")
	return st
}

func (p *parser) drop() *Statement {
	st := &Statement{Verb: Drop, If: p.took("if", "exists"), Users: p.users(nil)}
	p.over("DROP USER")
	return st
}

// password takes SET PASSWORD, which is an ALTER USER that keeps the plugin.
func (p *parser) password() *Statement {
	u := User{Self: true}
	if p.took("for") {
		u = p.user()
	}
	if p.is("to") {
		p.refuse("SET PASSWORD TO RANDOM")
	}
	if !p.tookSymbol("=") {
		p.wrong()
	}
	u.Identified = true
	if p.took("password") { // as MySQL 5.7 and MariaDB write it
		if !p.tookSymbol("(") {
			p.wrong()
		}
		if u.Password = p.newPassword(); !p.tookSymbol(")") {
			p.wrong()
		}
	} else {
		p.over("SET PASSWORD")
		u.Password = p.newPassword()
	}
	p.over("SET PASSWORD")
	return &Statement{Verb: Alter, Users: []User{u}}
}

func (p *parser) show() *Statement {
	st := &Statement{Verb: ShowGrants}
	if p.took("for") {
		st.Users = []User{p.user()}
	}
	p.over("SHOW GRANTS")
	return st
}

// all takes ALL [PRIVILEGES].
func (p *parser) all(statement string) {
	if !p.took("all") {
		if p.t.kind == word {
			p.refuse(statement + " " + strings.ToUpper(p.t.s) + ", but for ALL")
		}
		if p.t.kind == text || p.t.kind == quoted {
			p.refuse(statement + " of a role")
		}
		p.wrong()
	}
	p.took("privileges")
	if p.t.kind == symbol && p.t.s == "(" {
		p.refuse(statement + " on columns")
	}
}

func (p *parser) grant() *Statement {
	p.all("GRANT")
	st := &Statement{Verb: Grant}
	p.expect("on")
	p.level(st, "GRANT")
	p.expect("to")
	st.Users = p.users(nil)
	if p.took("with") {
		if !p.took("grant", "option") {
			p.over("GRANT … WITH")
			p.wrong()
		}
		if st.Option = true; st.Scope != Global {
			p.refuse("GRANT … WITH GRANT OPTION on less than *.*")
		}
	}
	p.over("GRANT")
	return st
}

func (p *parser) revoke() *Statement {
	if p.is("if") {
		p.refuse("REVOKE IF EXISTS")
	}
	p.all("REVOKE")
	st := &Statement{Verb: Revoke}
	if p.tookSymbol(",") {
		p.expect("grant", "option")
		st.Everything = true
	} else {
		p.expect("on")
		p.level(st, "REVOKE")
	}
	p.expect("from")
	st.Users = p.users(nil)
	p.over("REVOKE")
	return st
}

// level takes what privileges are on: *.*, * or a database.
func (p *parser) level(st *Statement, statement string) {
	for _, w := range []string{"function", "procedure"} {
		if p.is(w) {
			p.refuse(statement + " on a " + w)
		}
	}
	p.took("table")
	if p.tookSymbol("*") {
		if st.Scope = DefaultDatabase; p.tookSymbol(".") {
			if st.Scope = Global; !p.tookSymbol("*") {
				p.wrong()
			}
		}
		return
	}
	if p.t.kind != word && p.t.kind != quoted {
		p.wrong()
	}
	st.Scope, st.Database = OneDatabase, strings.ToLower(p.t.s)
	if len(st.Database) > eident.MaxDatabaseBytes || st.Database == "" || strings.ContainsRune(st.Database, 0) {
		p.wrong()
	}
	p.advance()
	if !p.tookSymbol(".") || !p.tookSymbol("*") {
		p.refuse(statement + " on a table")
	}
}
