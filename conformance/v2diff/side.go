package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
)

// side is one of the two clusters.
type side struct {
	cluster *proctest.Cluster
	client  *http.Client
	first   uint64 // index when the script began
	open    map[*step]watching
}

// watching is a live watch that has begun.
type watching struct {
	res  *http.Response
	line chan string
}

// response is what matters of an answer, not yet normalised.
type response struct {
	status int
	header http.Header
	body   string
	first  uint64
}

// patience is how long a watch with an event may take to send it, and how long one without events is listened to.
const patience = 30 * time.Millisecond

func newSide(c *proctest.Cluster) *side {
	return &side{cluster: c, open: map[*step]watching{}, client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// begin notes the index a script starts at.
func (x *side) begin() error {
	res, err := x.client.Get("http://" + x.cluster.Nodes[0].KV + "/v2/keys")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	x.first, err = strconv.ParseUint(res.Header.Get("X-Etcd-Index"), 10, 64)
	return err
}

var placeholder = regexp.MustCompile(`\{(in )?(\d+)\}`)

// fill puts this side's indexes in.
func (x *side) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(m string) string {
		sub := placeholder.FindStringSubmatch(m)
		n, _ := strconv.ParseUint(sub[2], 10, 64)
		if sub[1] != "" {
			return fmt.Sprintf("%020d", x.first+n)
		}
		return strconv.FormatUint(x.first+n, 10)
	})
}

func (x *side) request(st *step) (*http.Request, error) {
	fillAll := func(v url.Values) string {
		out := url.Values{}
		for k, vs := range v {
			for _, one := range vs {
				out.Add(k, x.fill(one))
			}
		}
		return out.Encode()
	}
	var body io.Reader
	if st.form != nil {
		body = strings.NewReader(fillAll(st.form))
	}
	to := "http://" + x.cluster.Nodes[0].KV + x.fill(st.path)
	if len(st.query) > 0 {
		to += "?" + fillAll(st.query)
	}
	req, err := http.NewRequest(st.method, to, body)
	if err != nil {
		return nil, err
	}
	if st.contentType != "" {
		req.Header.Set("Content-Type", st.contentType)
	}
	if st.origin != "" {
		req.Header.Set("Origin", st.origin)
	}
	if st.encoding != "" {
		req.Header.Set("Accept-Encoding", st.encoding)
	}
	return req, nil
}

// send sends a step and reads the answer; of a watch that has begun, it reads what has come.
func (x *side) send(st *step) (*response, error) {
	switch st.watch {
	case live:
		return x.heard(st), nil
	case history:
		if err := x.watch(st); err != nil {
			return nil, err
		}
		return x.heard(st), nil
	case untilGone:
		for range 200 {
			r, err := x.read(st)
			if err != nil || r.status != http.StatusOK {
				return r, err
			}
			time.Sleep(25 * time.Millisecond)
		}
		return nil, errors.New("it is still there after 5 s")
	}
	return x.read(st)
}

func (x *side) read(st *step) (*response, error) {
	req, err := x.request(st)
	if err != nil {
		return nil, err
	}
	res, err := x.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return &response{res.StatusCode, res.Header, string(b), x.first}, err
}

// watch begins a watch and returns once its head has come.
func (x *side) watch(st *step) error {
	req, err := x.request(st)
	if err != nil {
		return err
	}
	res, err := x.client.Do(req)
	if err != nil {
		return err
	}
	line := make(chan string, 1)
	x.open[st] = watching{res, line}
	go func() {
		text, _ := bufio.NewReader(res.Body).ReadString('\n') // an error: it was closed, or ended without a word
		line <- text
	}()
	return nil
}

// heard ends the watch and returns what it has said.
func (x *side) heard(st *step) *response {
	w := x.open[st]
	delete(x.open, st)
	r := &response{w.res.StatusCode, w.res.Header, "", x.first}
	select {
	case r.body = <-w.line:
		w.res.Body.Close()
	case <-time.After(patience):
		w.res.Body.Close()
		<-w.line
		r.body = "(nothing)"
	}
	return r
}
