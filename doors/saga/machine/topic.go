package machine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// topicSlot is a topic that this entry has looked at. There is no cache of them beyond the entry: they change once in a while.
type topicSlot struct {
	name   string
	topic  *Topic // nil: there is none
	stored bool   // the store has a row of it
	dirty  bool
}

// findTopic returns the slot of a topic.
func (m *Machine) findTopic(name string) (*topicSlot, error) {
	for _, s := range m.topics {
		if s.name == name {
			return s, nil
		}
	}
	s := &topicSlot{name: strings.Clone(name)}
	var err error
	if s.topic, err = readTopic(m.st, s.name); err != nil {
		return nil, err
	}
	s.stored = s.topic != nil
	m.topics = append(m.topics, s)
	return s, nil
}

func readTopic(r store.Reader, name string) (*Topic, error) {
	row, ok, err := r.Get(nil, appendTopicKey(nil, name))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read topic: %w", err)
	case !ok:
		return nil, nil
	}
	return decodeTopic(name, row)
}

// place returns the place of a URL among a topic's subscribers, -1 if it is none.
func (t *Topic) place(url string) int {
	return slices.IndexFunc(t.Subscribers, func(s Subscriber) bool { return s.URL == url })
}

func (m *Machine) checkTopic(pl *plan) (rej *entry.Rejection, err error) {
	p := pl.part.Topic
	if pl.topic, err = m.findTopic(p.Topic); err != nil {
		return nil, err
	}
	t := pl.topic.topic
	switch kind := pl.part.Kind; {
	case kind == sagapart.Subscribe && t == nil:
	case kind == sagapart.Subscribe && t.place(p.URL) >= 0:
		return reject(sagapart.URLExists, "%s", p.URL), nil
	case kind == sagapart.Subscribe && len(t.Subscribers) >= sagapart.MaxSubscribers:
		return reject(sagapart.TooLarge, "%d subscribers of %s", len(t.Subscribers), p.Topic), nil
	case kind == sagapart.Subscribe:
	case t == nil:
		return reject(sagapart.NoTopic, "%s", p.Topic), nil
	case kind == sagapart.Unsubscribe && len(t.Subscribers) == 0:
		return reject(sagapart.EmptyTopic, "%s", p.Topic), nil
	case kind == sagapart.Unsubscribe:
		if pl.unsub = t.place(p.URL); pl.unsub < 0 {
			return reject(sagapart.NoURL, "%s", p.URL), nil
		}
	}
	return nil, nil
}

// changeTopic does what Check has found nothing against.
func (m *Machine) changeTopic(st *entry.Stamp, pl *plan) {
	s, p := pl.topic, pl.part.Topic
	s.dirty = true
	switch {
	case pl.part.Kind == sagapart.Drop:
		s.topic = nil
		m.now.counts[countTopics]--
		m.changed = true
		return
	case s.topic == nil:
		s.topic = &Topic{Name: s.name, ID: m.now.next, Created: st.WallNs}
		m.now.next++
		m.now.counts[countTopics]++
		m.changed = true
	}
	t := s.topic
	t.Version++
	t.Updated = st.WallNs
	if pl.part.Kind == sagapart.Unsubscribe {
		t.Subscribers = slices.Delete(t.Subscribers, pl.unsub, pl.unsub+1)
	} else {
		t.Subscribers = append(t.Subscribers, Subscriber{URL: strings.Clone(p.URL), Remark: strings.Clone(p.Remark)})
	}
}

// writeTopics writes what the entry leaves of each topic it has changed.
func (m *Machine) writeTopics(b store.Batch) {
	for _, s := range m.topics {
		if !s.dirty {
			continue
		}
		m.key = appendTopicKey(m.key[:0], s.name)
		switch {
		case s.topic != nil:
			m.row = appendTopic(m.row[:0], s.topic)
			b.Set(m.key, m.row)
		case s.stored:
			b.Delete(m.key)
		}
	}
}
