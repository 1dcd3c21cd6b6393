package machine

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/store"
	sagapart "github.com/holdfastdb/holdfast/doors/saga/part"
	"github.com/holdfastdb/holdfast/internal/golden"
)

// TestStories plays the scripts in testdata. A line is a command (parse has the list) or a look at the state. Its answer is compared with
// the lines below it that begin with "  ". Commands between "entry" and "end" travel in one raft entry. -rewrite writes the answers
// instead.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, name := range files {
		if name == rowsFile {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			before, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, tell(t, string(before)))
		})
	}
}

// tell plays a script and returns it with the answers it gave.
func tell(t *testing.T, script string) string {
	r := newRig(t)
	var out strings.Builder
	lines := bufio.NewScanner(strings.NewReader(script))
	var batch []*sagapart.Part
	inEntry := false
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "  ") {
			continue // an old answer
		}
		fmt.Fprintln(&out, line)
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		var answer string
		look := looks[words[0]]
		switch {
		case words[0] == "entry":
			inEntry, batch = true, nil
			continue
		case words[0] == "end":
			inEntry = false
			for i, res := range r.apply(batch...) {
				answer += fmt.Sprintf("%d: %s\n", i, show(res))
			}
		case look != nil:
			answer = look(r, append(words[1:], "", ""))
		case inEntry:
			batch = append(batch, parse(t, line))
			continue
		default:
			answer = r.say(line)
		}
		for _, l := range strings.Split(strings.TrimRight(answer, "\n"), "\n") {
			fmt.Fprintln(&out, "  "+l)
		}
	}
	return out.String()
}

// looks are the words of stories that go not through the log.
var looks = map[string]func(r *rig, words []string) string{
	// tick MS: time passes; an empty entry says so.
	"tick": func(r *rig, words []string) string {
		ms, _ := strconv.ParseInt(words[0], 10, 64)
		r.Tick += ms
		r.Apply()
		return "now " + strconv.FormatInt(r.Tick, 10)
	},
	"find": func(r *rig, words []string) string {
		t, err := r.m.Find(words[0])
		if err != nil {
			return err.Error()
		}
		if t != nil {
			by, err := r.m.FindNumber(t.Number)
			if err != nil || showTransaction(by) != showTransaction(t) {
				r.T.Errorf("by its number %s is %s, %v", words[0], showTransaction(by), err)
			}
		}
		return showTransaction(t)
	},
	// list [before=N] [limit=N] [gid=G] [status=S] [mode=M]
	"list": func(r *rig, words []string) string {
		o := options{}
		for _, w := range words {
			k, v, _ := strings.Cut(w, "=")
			o[k] = append(o[k], v)
		}
		limit := 100
		if n := o.number(r.T, "limit"); n > 0 {
			limit = int(n)
		}
		all, next, err := r.list(uint64(o.number(r.T, "before")), limit, Filter{Gid: o.text("gid"), Status: sagapart.ParseStatus(o.text("status")),
			Mode: sagapart.ParseMode(o.text("mode"))})
		if err != nil {
			return err.Error()
		}
		var b strings.Builder
		for _, t := range all {
			fmt.Fprintf(&b, "%d %s %s %s\n", t.Number, t.Gid, t.Mode, t.Status)
		}
		return b.String() + fmt.Sprintf("next %d", next)
	},
	"due": func(r *rig, words []string) string {
		return strings.Trim(fmt.Sprint(r.due()), "[]") + "."
	},
	"counts": func(r *rig, words []string) string { return fmt.Sprintf("%+v", r.m.Counts()) },
	"held":   func(r *rig, words []string) string { return fmt.Sprint(r.m.Held()) },
	"topics": func(r *rig, words []string) string {
		all, err := r.m.Topics(words[0], 100)
		if err != nil {
			return err.Error()
		}
		var b strings.Builder
		for _, name := range all {
			t, err := r.m.Topic(name)
			if err != nil {
				return err.Error()
			}
			fmt.Fprintf(&b, "%s: id %d version %d created %s updated %s %v\n", t.Name, t.ID, t.Version, at(t.Created), at(t.Updated), t.Subscribers)
		}
		return b.String() + fmt.Sprintf("%d topics", len(all))
	},
	// rows: what inspection shows.
	"rows": func(r *rig, words []string) string {
		var b strings.Builder
		it, err := r.Store.NewIter([]byte{letter}, []byte{letter + 1})
		if err != nil {
			return err.Error()
		}
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.Value()
			if err != nil {
				return err.Error()
			}
			b.WriteString(DescribeRow(it.Key(), v) + "\n")
		}
		return b.String()
	},
	"restart": func(r *rig, words []string) string {
		r.reopen(Options{})
		return "ok"
	},
	// restore: a new cluster from a snapshot of this one.
	"restore": func(r *rig, words []string) string {
		restored(r)
		return "ok"
	},
}

// restored makes the rig one of a new cluster that was restored from the rig's store.
func restored(r *rig) {
	r.T.Helper()
	it, err := r.Store.NewIter([]byte{letter}, []byte{letter + 1})
	if err != nil {
		r.T.Fatal(err)
	}
	defer it.Close()
	st := store.NewMem()
	in, err := st.Incoming()
	if err != nil {
		r.T.Fatal(err)
	}
	c := Spec.Census()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			r.T.Fatal(err)
		}
		row, keep, err := Spec.Restore(it.Key(), v)
		if err != nil {
			r.T.Fatal(err)
		}
		if keep {
			if err := in.Set(it.Key(), row); err != nil {
				r.T.Fatal(err)
			}
			if err := c.Row(it.Key(), row); err != nil {
				r.T.Fatal(err)
			}
		}
	}
	if err := in.Finish(0); err != nil {
		r.T.Fatal(err)
	}
	if err := st.Install(in); err != nil {
		r.T.Fatal(err)
	}
	n := r.m.Counts()
	want := fmt.Sprint([]int64{n.Prepared + n.Submitted + n.Succeed + n.Aborting + n.Failed, n.Topics})
	if got := fmt.Sprint([]int64{c.Counts()[0].N, c.Counts()[1].N}); got != want {
		r.T.Errorf("the census counts %s, the machine %s", got, want)
	}
	tick := r.Tick
	*r = *openRig(r.T, st, Options{})
	r.Tick = tick
}
