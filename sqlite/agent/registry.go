package agent

import (
	"fmt"

	"github.com/holdfastdb/holdfast/sqlite/place"
)

// registry has the agent's databases by the names that may mean them. It is guarded by the agent's mu.
type registry struct {
	paths  map[string]*database
	spots  map[place.Spot]*database
	files  map[place.ID]*database // as they were when the database was added
	stores map[string]*database   // by the keys of replicas
	above  map[string]*database   // by the keys of the places that a replica lies below
}

func newRegistry() registry {
	return registry{paths: map[string]*database{}, spots: map[place.Spot]*database{}, files: map[place.ID]*database{},
		stores: map[string]*database{}, above: map[string]*database{}}
}

// refuse returns an error if d is known already, or has the replica of another database, or one below or above it. The error names both.
func (r *registry) refuse(d *database) error {
	named := d.place.Named
	other := r.paths[d.place.Path]
	if other == nil {
		other = r.spots[d.place.Spot]
	}
	if other == nil && d.began != (place.ID{}) {
		other = r.files[d.began]
	}
	if other != nil {
		if other.place.Named == named {
			return fmt.Errorf("%s is named twice; name it once", named)
		}
		return fmt.Errorf("%s and %s are one file, %s; name it once", other.place.Named, named, other.place.Path)
	}
	for _, key := range d.target.At.Own {
		if other := r.stores[key]; other != nil {
			return fmt.Errorf("%s and %s would both be kept in %s; give each a replica of its own", other.place.Named, named, d.target.URL)
		}
		if other := r.above[key]; other != nil {
			return fmt.Errorf("the replica of %s, %s, lies below that of %s, %s; put them side by side", other.place.Named, other.target.URL, named, d.target.URL)
		}
	}
	for _, key := range d.target.At.Above {
		if other := r.stores[key]; other != nil {
			return fmt.Errorf("the replica of %s, %s, lies below that of %s, %s; put them side by side", named, d.target.URL, other.place.Named, other.target.URL)
		}
	}
	return nil
}

// put adds a database that refuse has let pass.
func (r *registry) put(d *database) {
	r.paths[d.place.Path], r.spots[d.place.Spot] = d, d
	if d.began != (place.ID{}) {
		r.files[d.began] = d
	}
	for _, key := range d.target.At.Own {
		r.stores[key] = d
	}
	for _, key := range d.target.At.Above {
		r.above[key] = d
	}
}

// remove takes a database out.
func (r *registry) remove(d *database) {
	all := r.paths
	delete(all, d.place.Path)
	*r = newRegistry()
	for _, other := range all { // any order: no key of one database is another's, but for those above, of which any will do
		r.put(other)
	}
}

// find returns the database of a path as people write it, or nil.
func (r *registry) find(path string) *database {
	if d := r.paths[path]; d != nil {
		return d
	}
	for _, d := range r.paths { // any order: a name is one database's
		if d.place.Named == path {
			return d
		}
	}
	return nil
}

// Check returns an error if two targets are one database or would be kept in one place, or if a target cannot be kept. It reads directories
// and asks no bucket. Start and Add check as well; a command that touches anything before them calls Check first.
func Check(targets []Target) error {
	r := newRegistry()
	for _, t := range targets {
		d, err := located(realPlaces{}, t)
		if err != nil {
			return err
		}
		if err := r.refuse(d); err != nil {
			return err
		}
		r.put(d)
	}
	return nil
}

// located is a database of which nothing was touched yet: only its place is known.
func located(by Places, t Target) (*database, error) {
	d := &database{target: t}
	var err error
	if d.place, err = by.Resolve(t.Path); err != nil {
		return nil, fmt.Errorf("database %w", err)
	}
	if d.began, err = by.Check(d.place); err != nil && !t.Discovered { // else the takeover says it, again and again
		return nil, fmt.Errorf("database %w", err)
	}
	d.file = d.began
	if len(t.At.Own) == 0 {
		d.target.At = place.OfURL(t.URL)
	}
	d.target.Path = d.place.Path
	return d, nil
}
