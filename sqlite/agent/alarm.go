package agent

import (
	"slices"
	"time"
)

// alarmKind is the subject of an alarm. A database has one alarm of a kind at most.
type alarmKind string

// The kinds. Their words are label values of metrics.
const (
	// alarmCapture: commits are not captured.
	alarmCapture alarmKind = "capture"
	// alarmOpen: the database and its replica are not taken over.
	alarmOpen alarmKind = "open"
	// alarmStore: requests to the replica's store fail.
	alarmStore alarmKind = "store"
	// alarmSwapped: the replica's store is gone, or is another one than before.
	alarmSwapped alarmKind = "swapped"
	// alarmRefused: a person has to decide before the database is followed.
	alarmRefused alarmKind = "refused"
	// alarmExtension: commits were made that ought to have waited, and did not.
	alarmExtension alarmKind = "extension"
	// alarmPlace: the database's name leads to another file than the followed one.
	alarmPlace alarmKind = "place"
	// alarmNames: the database file has several names.
	alarmNames alarmKind = "names"
)

// AlarmKinds are all there are, in a fixed order.
func AlarmKinds() []string {
	return []string{string(alarmCapture), string(alarmOpen), string(alarmStore), string(alarmSwapped), string(alarmRefused), string(alarmExtension),
		string(alarmPlace), string(alarmNames)}
}

// begins and lasts are the log's messages of an alarm; passes is that of its end.
func (k alarmKind) begins() string {
	switch k {
	case alarmCapture:
		return "NOT STORED: what is committed is not captured"
	case alarmOpen:
		return "NOT STORED: the database is not followed yet; it is tried again"
	case alarmStore:
		return "the replica's store fails; it is tried again"
	case alarmSwapped:
		return "NOT STORED: the replica's store is not the one it was"
	case alarmRefused:
		return "NOT STORED: the database is not replicated"
	case alarmPlace:
		return "the database's name leads to a file that is not followed"
	case alarmNames:
		return "the database has several names, and one is followed"
	}
	return "a commit was made by a program without the extension, and did not wait to be stored"
}

const (
	// remindEvery is how often an alarm that lasts is logged.
	remindEvery = time.Minute
	// lookMost is how long the poller sleeps at most, so that alarms are logged in time.
	lookMost = time.Second
)

// Alarm is what keeps a database's commits from being stored, or from being stored in time.
type Alarm struct {
	Kind  string
	Text  string
	Since time.Time
	said  time.Time
}

// raise begins an alarm, which is logged at once, or gives a lasting one a new text. Any goroutine, without mu.
func (d *database) raise(kind alarmKind, text string) {
	now := d.now()
	d.mu.Lock()
	i := slices.IndexFunc(d.alarms, func(a Alarm) bool { return a.Kind == string(kind) })
	if i >= 0 {
		d.alarms[i].Text = text
	} else {
		d.alarms = append(d.alarms, Alarm{Kind: string(kind), Text: text, Since: now, said: now})
	}
	d.mu.Unlock()
	if i < 0 {
		d.log.Error(kind.begins(), "why", text)
	}
}

// clear ends alarms; those that were on are logged as over. Any goroutine, without mu.
func (d *database) clear(kinds ...alarmKind) {
	var over []Alarm
	d.mu.Lock()
	d.alarms = slices.DeleteFunc(d.alarms, func(a Alarm) bool {
		if slices.Contains(kinds, alarmKind(a.Kind)) {
			over = append(over, a)
			return true
		}
		return false
	})
	if len(d.alarms) == 0 {
		d.alarms = nil // an idle database keeps nothing
	}
	d.mu.Unlock()
	now := d.now()
	for _, a := range over {
		d.log.Info("over: "+alarmKind(a.Kind).begins(), "after", now.Sub(a.Since).Round(time.Millisecond))
	}
}

// remind logs the alarms that have lasted since they were logged last. It is the poller's.
func (d *database) remind(now time.Time) {
	var due []Alarm
	d.mu.Lock()
	for i := range d.alarms {
		if a := &d.alarms[i]; a.Kind != string(alarmExtension) && now.Sub(a.said) >= remindEvery {
			a.said = now
			due = append(due, *a)
		}
	}
	d.mu.Unlock()
	for _, a := range due {
		d.log.Error(alarmKind(a.Kind).begins(), "why", a.Text, "for", now.Sub(a.Since).Round(time.Second))
	}
}

// alarm returns the text of an alarm that is on, "" if it is not. The caller holds mu.
func (d *database) alarm(kind alarmKind) string {
	for _, a := range d.alarms {
		if a.Kind == string(kind) {
			return a.Text
		}
	}
	return ""
}
