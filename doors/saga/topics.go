package saga

import (
	"encoding/json"
	"errors"

	"github.com/holdfastdb/holdfast/core/entry"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
)

// subscribe adds a subscriber to a topic, which begins with its first one.
func (d *Door) subscribe(q *ask, topic, url, remark string) error {
	if err := checkURL("url", url); err != nil {
		return err
	}
	return d.changeTopic(q, sagapart.Subscribe, &sagapart.TopicPart{Topic: topic, URL: url, Remark: remark})
}

// unsubscribe takes one away.
func (d *Door) unsubscribe(q *ask, topic, url string) error {
	return d.changeTopic(q, sagapart.Unsubscribe, &sagapart.TopicPart{Topic: topic, URL: url})
}

// dropTopic takes a topic away with all its subscribers.
func (d *Door) dropTopic(q *ask, topic string) error {
	return d.changeTopic(q, sagapart.Drop, &sagapart.TopicPart{Topic: topic})
}

func (d *Door) changeTopic(q *ask, kind sagapart.Kind, p *sagapart.TopicPart) error {
	switch {
	case p.Topic == "":
		return errors.New("empty topic")
	case kind != sagapart.Drop && p.URL == "":
		return errors.New("empty url")
	case len(p.Topic) > sagapart.MaxTopicBytes:
		return refuse(400, "topic: %d bytes are too many; at most %d", len(p.Topic), sagapart.MaxTopicBytes)
	case max(len(p.URL), len(p.Remark)) > sagapart.MaxURLBytes:
		return refuse(413, "url or remark: %d bytes are too many; at most %d", max(len(p.URL), len(p.Remark)), sagapart.MaxURLBytes)
	}
	_, rej, err := d.propose(q, &sagapart.Part{Kind: kind, Topic: p})
	if err != nil || rej == nil {
		return err
	}
	return topicRefused(kind, rej)
}

// topicRefused is what DTM says, its space behind url included.
func topicRefused(kind sagapart.Kind, rej *entry.Rejection) error {
	switch rej.Code {
	case sagapart.NoTopic:
		if kind == sagapart.Drop {
			return errors.New("storage: NotFound")
		}
		return errors.New("no such a topic")
	case sagapart.EmptyTopic:
		return errors.New("this topic is empty")
	case sagapart.NoURL:
		return errors.New("no such an url ")
	case sagapart.URLExists:
		return errors.New("this url exists")
	}
	return unknown(rej)
}

// noTopics is an answer without a topic.
var noTopics = json.RawMessage(`{"kv":[]}`)

// scanKV lists the rows of a category, a page at a time; there are topics. The position of DTM is a number, here it is a name.
func (d *Door) scanKV(q *ask, p params) (any, error) {
	n, err := limit(p)
	if err != nil || p.get("cat") != topics {
		return json.RawMessage(`{"kv":[],"next_position":""}`), err
	}
	if err := d.node.Linearize(d.bounded()); err != nil {
		return nil, unread(err)
	}
	found, err := d.machine.Topics(p.get("position"), n)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(found) == n {
		next = found[n-1]
	}
	return d.paged(q, &shownTopics{d: d, names: found, tail: `,"next_position":"` + string(appendEscaped(nil, next)) + `"`})
}

// queryKV answers one row of a category, or all up to a bound where no key is given.
func (d *Door) queryKV(q *ask, p params) (any, error) {
	if cat := p.get("cat"); cat != "" && cat != topics {
		return noTopics, nil
	}
	if err := d.node.Linearize(d.bounded()); err != nil {
		return nil, unread(err)
	}
	if key := p.get("key"); key != "" {
		return d.paged(q, &shownTopics{d: d, names: []string{key}})
	}
	found, err := d.machine.Topics("", mostPage)
	if err != nil {
		return nil, err
	}
	return d.paged(q, &shownTopics{d: d, names: found})
}
