package agent

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/sqlite/gate"
	"github.com/holdfastdb/holdfast/sqlite/place"
	"github.com/holdfastdb/holdfast/sqlite/walfile"
)

// Places tells which files names mean. Any goroutine may call it.
type Places interface {
	// Resolve, Check and Identify are package place's.
	Resolve(name string) (place.Place, error)
	Check(p place.Place) (place.ID, error)
	Identify(path string) (place.ID, error)
	// Leads and Stands are place.Place's.
	Leads(p place.Place) (path string, elsewhere bool)
	Stands(p place.Place) bool
}

// realPlaces are those of this machine.
type realPlaces struct{}

func (realPlaces) Resolve(name string) (place.Place, error)  { return place.Resolve(name) }
func (realPlaces) Check(p place.Place) (place.ID, error)     { return p.Check() }
func (realPlaces) Identify(path string) (place.ID, error)    { return place.Identify(path) }
func (realPlaces) Leads(p place.Place) (path string, e bool) { return p.Leads() }
func (realPlaces) Stands(p place.Place) bool                 { return p.Stands() }

// textPlaces are those of a file system without links and inodes, as a simulation's is: the path is all that there is.
type textPlaces struct{}

func (textPlaces) Resolve(name string) (place.Place, error) {
	path := filepath.Clean(name)
	return place.Place{Named: name, Path: path, Spot: place.Spot{Rest: path}}, nil
}
func (textPlaces) Check(place.Place) (place.ID, error)       { return place.ID{}, nil }
func (textPlaces) Identify(string) (place.ID, error)         { return place.ID{}, nil }
func (textPlaces) Leads(p place.Place) (path string, e bool) { return p.Path, false }
func (textPlaces) Stands(place.Place) bool                   { return true }

// placesOn are the places of a file system.
func placesOn(fs disk.FS) Places {
	if fs == nil || fs == disk.OS() {
		return realPlaces{}
	}
	return textPlaces{}
}

// mostStrange bounds the databases of others of which it was said that they are not kept here.
const mostStrange = 100

// identity is a database's knowledge of the file that its name means.
type identity struct {
	place place.Place
	began place.ID // device and inode of the file when the database was added; zero: there was none
	file  place.ID // the same when it was looked at last; guarded by mu

	elsewhere string // guarded by mu: where the name leads by now, if that is another place; "": where it led at the start
}

var (
	errAstray = errors.New("another file has taken the database's place since this connection was opened, and what it commits is stored nowhere; open the database anew")
	errPlace  = errors.New("another directory has taken the place of the database's; start the agent anew")
)

// lookup finds the database that a HELLO means; nil if the agent has none that could be meant. A connection has one of the agent's databases if its
// WAL lies where the agent reads: in the same directory, under the same name. Its file is compared in Join.
func (a *Agent) lookup(h gate.Hello) gate.Database {
	<-a.started
	if h.Dir == (place.ID{}) { // HELLO of version 1 has a path and no more
		p, err := a.cfg.Places.Resolve(h.Path)
		if err != nil {
			return nil
		}
		h.Path, h.Dir = p.Path, p.Spot.Dir
		if d := a.byPath(p.Path); d != nil {
			return d
		}
	}
	a.mu.Lock()
	d := a.known.spots[place.Spot{Dir: h.Dir, Rest: filepath.Base(h.Path)}]
	a.mu.Unlock()
	if d != nil {
		return d
	}
	if h.File == (place.ID{}) {
		h.File, _ = a.cfg.Places.Identify(h.Path) // without a file there is nothing to compare
	}
	for _, d := range a.all() {
		if id, err := a.cfg.Places.Identify(d.target.Path); err == nil && id == h.File && id != (place.ID{}) {
			return a.stranger(d, h, fmt.Sprintf("%s is the file of %s under another name, and its WAL is not read; open it as %s", h.Path, d.place.Named, d.target.Path))
		}
		d.mu.Lock()
		elsewhere := d.elsewhere
		d.mu.Unlock()
		if elsewhere == "" {
			continue
		}
		if p, err := a.cfg.Places.Resolve(d.place.Named); err == nil && p.Spot.Dir == h.Dir && p.Name() == filepath.Base(h.Path) {
			return a.stranger(d, h, fmt.Sprintf("%s led to %s when the agent started, and leads to %s now, which is not followed; start the agent anew",
				d.place.Named, d.target.Path, p.Path))
		}
	}
	a.strange(h)
	return nil
}

// byPath finds the database of a path as people write it.
func (a *Agent) byPath(path string) *database {
	a.mu.Lock()
	d := a.known.find(path)
	a.mu.Unlock()
	if d != nil {
		return d
	}
	p, err := a.cfg.Places.Resolve(path)
	if err != nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known.find(p.Path)
}

// strange logs once for each unknown database that a program asked for: nothing of it is kept here.
func (a *Agent) strange(h gate.Hello) {
	a.mu.Lock()
	said := a.strangers[h.Path] || len(a.strangers) >= mostStrange
	if !said {
		a.strangers[h.Path] = true
	}
	a.mu.Unlock()
	if !said {
		a.cfg.Log.Warn("a program writes to a database that this agent does not have; its commits are stored nowhere", "path", h.Path, "pid", h.PID)
	}
}

// stranger is a connection's view of one of the agent's databases, with another file or WAL than the agent reads. Its writes are refused
// under archive.
type stranger struct {
	d    *database
	text string
}

func (a *Agent) stranger(d *database, h gate.Hello, text string) *stranger {
	d.log.Warn("a program has the database open in a way that is not followed", "pid", h.PID, "why", text)
	return &stranger{d, text}
}

// Join implements gate.Database. The connection is ended after a while, so that a later HELLO asks again.
func (s *stranger) Join(c *gate.Conn) gate.State {
	s.d.agent.mu.Lock()
	s.d.agent.parting = append(s.d.agent.parting, c)
	s.d.agent.mu.Unlock()
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return s.d.refusing(c, s.text)
}

// Leave implements gate.Database.
func (s *stranger) Leave(*gate.Conn) {}

// Commit implements gate.Database.
func (s *stranger) Commit(c *gate.Conn, commit gate.Commit) { c.Done(commit.Seq, gate.Refused, s.text) }

// Note implements gate.Database.
func (s *stranger) Note() {}

// Status implements gate.Database.
func (s *stranger) Status() string { return "none: " + s.text }

// refusing is the state for a connection whose commits will not be stored; the caller holds mu.
func (d *database) refusing(c *gate.Conn, text string) gate.State {
	s := d.state()
	s.Refuse, s.Hold, s.Text = gate.InDoubt, false, text
	if c.Hello.Ack != gate.Default {
		s.Ack = c.Hello.Ack
	}
	return s
}

// astray reports whether a connection has another file open than the database's name means. The caller holds mu.
func (d *database) astray(c *gate.Conn) bool {
	if c.Hello.File == (place.ID{}) || c.Hello.File == d.file {
		return false
	}
	id, err := d.agent.cfg.Places.Identify(d.target.Path)
	if err != nil || id == (place.ID{}) {
		return false // without a file nothing is answered
	}
	d.file = id
	return c.Hello.File != id
}

// forOne is what one extension is told; the caller holds mu.
func (d *database) forOne(c *gate.Conn, s gate.State) gate.State {
	if d.astray(c) {
		return d.refusing(c, errAstray.Error())
	}
	if c.Hello.Ack != gate.Default {
		s.Ack = c.Hello.Ack
	}
	return s
}

// refuseAstray answers, of the first n waiters, those whose connection has another file open than id, and takes them out. It returns how many they
// were. Their commits went into a file that has no name any more.
func (d *database) refuseAstray(n int, id place.ID) (refused int) {
	left := d.waiters[:0]
	for i, w := range d.waiters {
		if i < n && w.conn != nil && w.conn.Hello.File != (place.ID{}) && w.conn.Hello.File != id {
			w.answer(gate.NotStored, errAstray)
			refused++
			continue
		}
		left = append(left, w)
	}
	clear(d.waiters[len(left):])
	d.waiters = left
	return refused
}

// inPlace returns an error if the directory of the database is another one than at the start: then the lock beside it protects nothing.
func (d *database) inPlace() error {
	if d.agent.cfg.Places.Stands(d.place) {
		return nil
	}
	return errPlace
}

// idOf is the file that a glance has shown.
func idOf(look walfile.Look) place.ID { return place.ID{Dev: look.DB.Device, Ino: look.DB.Inode} }

// noteFile takes over the result of a glance at the files. It tells extensions and people of another file, or of one with several names.
func (d *database) noteFile(look walfile.Look) {
	id := idOf(look)
	d.mu.Lock()
	other := d.file != id && d.file != (place.ID{}) && id != (place.ID{})
	if id != (place.ID{}) {
		d.file = id
	}
	d.mu.Unlock()
	if other {
		d.log.Warn("another file has taken the database's place; it is compared and followed. Programs that had the old one open have to open it anew")
		d.tell()
	}
	if look.DB.Links > 1 {
		d.raise(alarmNames, fmt.Sprintf("the file has %d names (hard links), and what is written under another name is not read; remove the other names", look.DB.Links))
	} else {
		d.clear(alarmNames)
	}
}

// noteLead looks where a name leads that goes through symbolic links. It is the poller's.
func (d *database) noteLead() {
	if !d.place.Linked {
		return
	}
	path, elsewhere := d.agent.cfg.Places.Leads(d.place)
	if !elsewhere {
		path = ""
	}
	d.mu.Lock()
	d.elsewhere = path
	d.mu.Unlock()
	if elsewhere {
		d.raise(alarmPlace, fmt.Sprintf("%s leads to %s since the agent started; what is written there is stored nowhere. Start the agent anew", d.place.Named, path))
	} else {
		d.clear(alarmPlace)
	}
}
