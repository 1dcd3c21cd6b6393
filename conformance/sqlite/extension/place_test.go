package extension

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfastdb/holdfast/internal/extagent"
	"github.com/holdfastdb/holdfast/internal/wait"
)

func link(t *testing.T, to, name string) string {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestEveryNameOfADatabaseIsTheDatabase: the agent's file is found beside the file that a name leads to, and HELLO says which file that is.
func TestEveryNameOfADatabaseIsTheDatabase(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	at := func(parts ...string) string { return filepath.Join(append([]string{p.dir}, parts...)...) }
	for _, dir := range []string{"other", "other/deep", "with a space", "other/f\xffile?#%20"} {
		if err := os.Mkdir(at(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link(t, p.db, at("other", "app.db"))
	link(t, "app.db", at("other", "second"))
	link(t, "other/second", at("third name"))
	link(t, ".", at("current"))
	link(t, "other/deep", at("deep"))
	link(t, "../app.db", at("with a space", "a b.db"))
	file, dir := extagent.Identify(p.db), extagent.Identify(p.dir)
	for _, name := range []string{
		p.db, at("other/app.db"), at("other/second"), at("third name"), at("current/app.db"), at("current/current/third name"), at("with a space/a b.db"),
		p.dir + "/deep/../../app.db", p.dir + "/./other//../app.db", "file:" + at("third%20name"), "file://localhost" + p.db + "?cache=private",
	} {
		c := g.open(name)
		c.is("pragma holdfast_ack", "archive")
		before := len(p.Commits())
		c.exec("insert into t values(1)")
		if n := len(p.Commits()) - before; n != 1 {
			t.Errorf("%q: the agent was asked %d times", name, n)
		}
		hellos := p.Hellos()
		if h := hellos[len(hellos)-1]; h.File != file || h.Dir != dir || h.Path != p.db {
			t.Errorf("%q: %+v", name, h)
		}
		c.close()
	}
	// Names that a terminal does not like.
	odd := at("other", "f\xffile?#%20", "ap p\xfe.db")
	if err := p.Manage(odd, "archive"); err != nil {
		t.Fatal(err)
	}
	linked := link(t, odd, at("odd"))
	c := g.open(linked)
	c.exec("pragma journal_mode=wal", "create table t(a)")
	hellos := p.Hellos()
	if h := hellos[len(hellos)-1]; h.Path != odd || h.File != extagent.Identify(odd) {
		t.Errorf("%+v", h)
	}
}

// TestAFileThatWasReplacedTakesNoCommitsUnderArchive: its new content would be lost, and the agent follows the other file.
func TestAFileThatWasReplacedTakesNoCommitsUnderArchive(t *testing.T) {
	for name, away := range map[string]func(p *place) error{
		"another file":     func(p *place) error { return os.Rename(p.db+".new", p.db) },
		"removed":          func(p *place) error { return os.Remove(p.db) },
		"renamed":          func(p *place) error { return os.Rename(p.db, p.db+".old") },
		"its directory":    func(p *place) error { return os.Rename(p.dir+"/data", p.dir+"/moved") },
		"replaced by link": func(p *place) error { return replaceByLink(p.db, p.db+".new") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, "")
			p.db = filepath.Join(p.dir, "data", "app.db")
			if err := os.Mkdir(filepath.Dir(p.db), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := p.Manage(p.db, "archive"); err != nil {
				t.Fatal(err)
			}
			g := p.started()
			fresh := g.open(filepath.Join(p.dir, "fresh"))
			fresh.exec("create table t(a)", "vacuum into '"+p.db+".new'")
			c, local := g.open(p.db), g.open(p.db)
			local.exec("pragma holdfast_ack=local", "insert into t values(0)")
			c.exec("insert into t values(1)")
			if err := away(p); err != nil {
				t.Fatal(err)
			}
			before := len(p.Commits())
			c.fails("insert into t values(2)", readonly)
			c.fails("begin immediate", readonly)
			c.is("select count(*) from t", 3)
			if n := len(p.Commits()) - before; n != 0 {
				t.Errorf("the agent was asked for %d commits of a file without a name", n)
			}
			local.exec("insert into t values(3)")
		})
	}
}

func replaceByLink(name, to string) error {
	if err := os.Remove(name); err != nil {
		return err
	}
	return os.Symlink(to, name)
}

// TestARequestForArchiveIsNeverPassedThrough: a PRAGMA that asks for what no agent does refuses writing, as the URI does.
func TestARequestForArchiveIsNeverPassedThrough(t *testing.T) {
	p := newPlace(t, "")
	g := p.python()
	c := g.open(p.db)
	c.exec("pragma journal_mode=wal", "create table t(a)", "insert into t values(1)")
	c.is("pragma holdfast_ack=archive", "archive")
	c.fails("insert into t values(2)", readonly)
	c.is("pragma holdfast_ack=local", "local")
	c.exec("insert into t values(3)")
	c.is("pragma holdfast_ack=archive", "archive")

	// An agent that begins now is found, and one that does not have the file is not believed.
	if err := p.Manage(p.db, "archive"); err != nil {
		t.Fatal(err)
	}
	c.exec("insert into t values(4)")
	if n := len(p.Commits()); n != 1 {
		t.Errorf("the agent was asked %d times", n)
	}
	p.Say(func(s *extagent.State) { s.Managed = false })
	c.fails("insert into t values(5)", readonly)

	// In a transaction that has begun without it, it counts from the next one on.
	d := g.open(filepath.Join(p.dir, "second.db"))
	d.exec("pragma journal_mode=delete", "create table t(a)", "begin immediate", "pragma holdfast_ack=archive", "insert into t values(1)", "commit")
	d.fails("insert into t values(2)", readonly)
}

// TestAnAgentThatIsOlderClosesTheConnection: it knows no HELLO of version 2, and is named as what has to be replaced.
func TestAnAgentThatIsOlderClosesTheConnection(t *testing.T) {
	p := newPlace(t, "archive")
	g := p.started()
	p.Old(true)
	c := g.open(p.db)
	c.fails("insert into t values(1)", readonly)
	if got := c.one("pragma holdfast_status"); got != "none: the agent closed the connection without an answer, as one that is older than this extension does; start a newer agent" {
		t.Error(got)
	}
	p.Old(false)
	wait.Until(t, "a newer agent is asked", func() bool { return c.do("exec", "insert into t values(1)").Error == "" })
}
