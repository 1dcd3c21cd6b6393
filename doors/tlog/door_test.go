package tlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/node"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/meter"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// http1 does not ask for gzip by itself; http2 begins with the preface.
var (
	http1 = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}}
	http2 = &http.Client{Transport: func() http.RoundTripper {
		t := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
		t.Protocols.SetUnencryptedHTTP2(true)
		return t
	}()}
)

// TestTheSurface walks over every path as the specification and Tessera's tools know it, by HTTP/1.1 and by HTTP/2.
func TestTheSurface(t *testing.T) {
	for name, c := range map[string]*http.Client{"http1": http1, "http2": http2} {
		t.Run(name, func(t *testing.T) {
			s, _, url := open(t, Options{}, "default", "other")
			key := s.signer("default").Verifier()
			note := expect(t, c, "GET", url+"/checkpoint", 200, "Content-Type: text/plain; charset=utf-8", "Cache-Control: no-cache",
				"Access-Control-Allow-Origin: *")
			if cp, _, err := tiles.OpenCheckpoint(note, key); err != nil || cp.Size != 0 || cp.Root != tiles.EmptyRoot() {
				t.Fatalf("at first: %+v, %v", cp, err)
			}
			for i := range 300 {
				res, b := call(t, c, "POST", url+"/add", fmt.Appendf(nil, "entry %d", i))
				if res.StatusCode != 200 || string(b) != strconv.Itoa(i) || res.Header.Get("Content-Type") != typeText {
					t.Fatalf("add %d: %s %q %v", i, res.Status, b, res.Header)
				}
			}
			if res, b := call(t, c, "POST", url+"/logs/other/add", nil); res.StatusCode != 200 || string(b) != "0" {
				t.Fatalf("an empty entry: %s %q", res.Status, b)
			}
			expect(t, c, "GET", url+"/tile/entries/000", 404, "Cache-Control: no-store") // no checkpoint covers it
			s.signNow("default")
			res, note := call(t, c, "GET", url+"/checkpoint", nil)
			cp, _, err := tiles.OpenCheckpoint(note, key)
			if err != nil || cp.Size != 300 {
				t.Fatalf("after 300 adds: %+v, %v", cp, err)
			}
			if res, b := call(t, c, "GET", url+"/checkpoint", nil, "If-None-Match", res.Header.Get("ETag")); res.StatusCode != 304 || len(b) != 0 {
				t.Errorf("the same again: %s %q", res.Status, b)
			}
			forever := []string{"Content-Type: application/octet-stream", "Cache-Control: max-age=31536000, immutable"}
			var want, want256 []byte
			for i := range 300 {
				if i == 256 {
					want256 = want
					if got := expect(t, c, "GET", url+"/tile/entries/000", 200, append(forever, "Vary: Accept-Encoding")...); !bytes.Equal(got, want) {
						t.Error("the full bundle differs")
					}
					want = nil
				}
				want = tiles.AppendEntry(want, fmt.Appendf(nil, "entry %d", i))
				if w := i%256 + 1; w < 256 && w%17 == 0 {
					got := expect(t, c, "GET", fmt.Sprintf("%s/tile/entries/%03d.p/%d", url, i/256, w), 200, forever...)
					if !bytes.Equal(got, want) {
						t.Errorf("bundle %d.p/%d differs", i/256, w)
					}
				}
			}
			for path, length := range map[string]int{"0/000": 8192, "0/001.p/44": 44 * 32, "0/001.p/7": 7 * 32, "0/000.p/255": 255 * 32, "1/000.p/1": 32} {
				if b := expect(t, c, "GET", url+"/tile/"+path, 200, forever...); len(b) != length {
					t.Errorf("tile %s has %d bytes", path, len(b))
				}
			}
			for _, path := range []string{"/tile/0/001", "/tile/0/001.p/45", "/tile/1/000", "/tile/2/000.p/1", "/tile/entries/002.p/1", "/tile/x/000",
				"/tile/0/1", "/", "/nothing", "/logs/none/checkpoint", "/logs/other", "/logs/../checkpoint", "/tile/63/000.p/1"} {
				expect(t, c, "GET", url+path, 404, "Cache-Control: no-store")
			}
			expect(t, c, "GET", url+"/add", 405, "Allow: POST")
			expect(t, c, "PUT", url+"/checkpoint", 405)
			expect(t, c, "OPTIONS", url+"/checkpoint", 204, "Access-Control-Allow-Methods: GET, HEAD, OPTIONS", "Access-Control-Allow-Origin: *")
			if b := expect(t, c, "HEAD", url+"/tile/0/000", 200, "Content-Length: 8192"); len(b) != 0 {
				t.Error("HEAD has a body")
			}
			res, packed := call(t, c, "GET", url+"/tile/entries/000", nil, "Accept-Encoding", "gzip")
			z, err := gzip.NewReader(bytes.NewReader(packed))
			if err != nil || res.Header.Get("Content-Encoding") != "gzip" {
				t.Fatalf("compressed: %v %v", err, res.Header)
			}
			full, _ := call(t, c, "GET", url+"/tile/entries/000", nil)
			if b, err := io.ReadAll(z); err != nil || int64(len(b)) != full.ContentLength || len(packed) >= len(b) {
				t.Errorf("compressed: %d of %d bytes, %v", len(packed), len(b), err)
			}
			packedTag, fullTag := res.Header.Get("ETag"), full.Header.Get("ETag")
			if packedTag == fullTag || fullTag == "" {
				t.Errorf("ETag %s compressed, %s as it is", packedTag, fullTag)
			}
			for _, headers := range [][]string{{"If-None-Match", fullTag}, {"If-None-Match", packedTag, "Accept-Encoding", "gzip"}, {"If-None-Match", `"other", ` + fullTag}} {
				if res, b := call(t, c, "GET", url+"/tile/entries/000", nil, headers...); res.StatusCode != 304 || len(b) != 0 {
					t.Errorf("%v: %s, %d bytes", headers, res.Status, len(b))
				}
			}
			if res, _ := call(t, c, "GET", url+"/tile/entries/000", nil, "If-None-Match", packedTag); res.StatusCode != 200 {
				t.Errorf("without gzip, with the tag of the compressed one: %s", res.Status)
			}
			_, tile := call(t, c, "GET", url+"/tile/0/000", nil)
			if res, b := call(t, c, "GET", url+"/tile/0/000", nil, "Range", "bytes=32-63"); res.StatusCode != 206 || !bytes.Equal(b, tile[32:64]) ||
				res.Header.Get("Content-Range") != "bytes 32-63/8192" {
				t.Errorf("the second hash of a tile: %s %v, %d bytes", res.Status, res.Header, len(b))
			}
			if res, b := call(t, c, "GET", url+"/tile/entries/000", nil, "Range", "bytes=0-9", "Accept-Encoding", "gzip"); res.StatusCode != 206 || !bytes.Equal(b, want256[:10]) {
				t.Errorf("the beginning of a bundle: %s, %q", res.Status, b)
			}
			if res, _ := call(t, c, "GET", url+"/tile/0/000", nil, "Range", "bytes=9000-"); res.StatusCode != 416 || res.Header.Get("Content-Range") != "bytes */8192" {
				t.Errorf("behind the end: %s %v", res.Status, res.Header)
			}
			if res, b := call(t, c, "POST", url+"/add", make([]byte, 65535)); res.StatusCode != 200 || string(b) != "300" {
				t.Errorf("the largest entry: %s %s", res.Status, b)
			}
			if res, _ := call(t, c, "POST", url+"/add", make([]byte, 65536)); res.StatusCode != 413 {
				t.Errorf("an entry that is too large: %s", res.Status)
			}
		})
	}
}

// TestProofs: what the door says about an entry verifies, and what it cannot say it refuses.
func TestProofs(t *testing.T) {
	t.Parallel()
	s, _, url := open(t, Options{ProofTimeout: 2 * time.Second}, "default", "found+index", "once+dedup")
	key := s.signer("default").Verifier()
	roots := []tiles.Hash{tiles.EmptyRoot()}
	for i := range 600 {
		e := fmt.Appendf(nil, "entry %d", i)
		res, b := call(t, http1, "POST", url+"/add?proof=1", e)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/vnd.c2sp.tlog-proof" {
			t.Fatalf("add %d: %s %s", i, res.Status, b)
		}
		p, err := tiles.ParseTlogProof(b)
		if err != nil || p.Index != uint64(i) {
			t.Fatalf("add %d: %+v, %v", i, p, err)
		}
		cp, err := p.Verify(e, key)
		if err != nil {
			t.Fatalf("add %d: %v", i, err)
		}
		roots = append(roots, cp.Root)
	}
	for _, i := range []int{0, 255, 256, 511, 599} {
		b := expect(t, http1, "GET", fmt.Sprintf("%s/proof/inclusion?index=%d", url, i), 200, "Content-Type: application/vnd.c2sp.tlog-proof")
		p, err := tiles.ParseTlogProof(b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Verify(fmt.Appendf(nil, "entry %d", i), key); err != nil {
			t.Errorf("inclusion of %d: %v", i, err)
		}
		var at struct {
			Index, Size uint64
			Hashes      []string
		}
		if err := json.Unmarshal(expect(t, http1, "GET", fmt.Sprintf("%s/proof/inclusion?index=%d&size=%d", url, i, i+1), 200), &at); err != nil {
			t.Fatal(err)
		}
		leaf := tiles.LeafHash(fmt.Appendf(nil, "entry %d", i))
		if err := tiles.VerifyInclusion(at.Index, at.Size, leaf, hashesOf(t, at.Hashes), roots[i+1]); err != nil {
			t.Errorf("inclusion of %d in %d: %v", at.Index, at.Size, err)
		}
		var con struct {
			From, To uint64
			Hashes   []string
		}
		if err := json.Unmarshal(expect(t, http1, "GET", fmt.Sprintf("%s/proof/consistency?from=%d&to=600", url, i+1), 200), &con); err != nil {
			t.Fatal(err)
		}
		if err := tiles.VerifyConsistency(con.From, con.To, roots[con.From], roots[con.To], hashesOf(t, con.Hashes)); err != nil {
			t.Errorf("consistency of %d: %v", con.From, err)
		}
	}
	for path, code := range map[string]int{"inclusion?index=600": 404, "inclusion?index=5&size=601": 404, "inclusion?index=5&size=5": 404, "inclusion": 400,
		"inclusion?index=-1": 400, "inclusion?index=05": 400, "inclusion?index=1&index=2": 400, "inclusion?index=1&x=2": 400, "consistency?from=1": 400,
		"consistency?from=2&to=1": 400, "consistency?from=1&to=601": 404, "consistency?from=a&to=1": 400} {
		expect(t, http1, "GET", url+"/proof/"+path, code, "Cache-Control: no-store")
	}

	expect(t, http1, "GET", url+"/lookup?hash="+hashOf("x"), 501)
	for range 3 {
		call(t, http1, "POST", url+"/logs/found/add?proof=1", []byte("x"))
		call(t, http1, "POST", url+"/logs/once/add?proof=1", []byte("x"))
	}
	if b := expect(t, http1, "GET", url+"/logs/found/lookup?hash="+hashOf("x"), 200, "Content-Type: application/json"); string(b) != "{\"indexes\":[0,1,2]}\n" {
		t.Errorf("lookup: %s", b)
	}
	if b := expect(t, http1, "GET", url+"/logs/once/lookup?hash="+hashOf("x"), 200); string(b) != "{\"indexes\":[0]}\n" {
		t.Errorf("lookup: %s", b)
	}
	expect(t, http1, "GET", url+"/logs/found/lookup?hash="+hashOf("y"), 404)
	expect(t, http1, "GET", url+"/logs/found/lookup?hash=00", 400)

	s.mu.Lock()
	s.mute = true
	s.mu.Unlock()
	if res, b := call(t, http1, "POST", url+"/add?proof=1", []byte("unsigned")); res.StatusCode != 202 || string(b) != "600" {
		t.Errorf("without a checkpoint: %s %s", res.Status, b)
	}
	if res, _ := call(t, http1, "POST", url+"/add?proof=yes", nil); res.StatusCode != 400 {
		t.Errorf("proof=yes: %s", res.Status)
	}
}

func hashOf(e string) string { h := tiles.LeafHash([]byte(e)); return hex.EncodeToString(h[:]) }

func hashesOf(t *testing.T, texts []string) (out []tiles.Hash) {
	t.Helper()
	for _, s := range texts {
		h, err := tiles.ParseHash(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, h)
	}
	return out
}

// TestAddsShareCommands: many writers at once, every index holds its writer's entry, and few commands carried them.
func TestAddsShareCommands(t *testing.T) {
	s, d, _ := open(t, Options{}, "default")
	s.slow = time.Millisecond
	l := s.logs.Find("default")
	const writers, each = 64, 40
	var mu sync.Mutex
	by := map[uint64]string{}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				e := fmt.Sprintf("%d of %d", i, w)
				index, _, err := d.queue(l).add([]byte(e), false)
				mu.Lock()
				if err != nil || by[index] != "" {
					t.Errorf("%q: index %d, which has %q; %v", e, index, by[index], err)
				}
				by[index] = e
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(by) != writers*each || l.View().Size != writers*each {
		t.Fatalf("%d indexes, %d entries", len(by), l.View().Size)
	}
	for n := uint64(0); n*256 < writers*each; n++ {
		b, err := l.Bundle(n, int(min(256, writers*each-n*256)))
		if err != nil {
			t.Fatal(err)
		}
		for i := n * 256; len(b) > 0; i++ {
			var e []byte
			if e, b, err = tiles.NextEntry(b); err != nil || string(e) != by[i] {
				t.Fatalf("entry %d is %q, its writer wrote %q", i, e, by[i])
			}
		}
	}
	if s.calls > 5*each {
		t.Errorf("%d commands for %d adds", s.calls, writers*each)
	}
}

// TestWhatMayBeSentAgain: 503 only where the entry is provably not in the log.
func TestWhatMayBeSentAgain(t *testing.T) {
	why, counts := "", new(meter.Tlog)
	s, _, url := open(t, Options{Meter: counts, MaxQueueBytes: 1000, RequestTimeout: 100 * time.Millisecond, ReadOnly: func(*tlogmachine.Log) string { return why }}, "default")
	for err, code := range map[error]int{node.ErrOverloaded: 503, node.ErrNoLeader: 503, node.ErrStopped: 503, node.ErrSuperseded: 503,
		node.ErrUnknown: 500, errors.New("something else"): 500} {
		s.mu.Lock()
		s.fail = fmt.Errorf("wrapped: %w", err)
		s.mu.Unlock()
		res, b := call(t, http1, "POST", url+"/add", []byte("x"))
		if res.StatusCode != code || (res.Header.Get("Retry-After") != "") != (code == 503) || (code == 500) != strings.Contains(string(b), "not known") {
			t.Errorf("%v: %s, Retry-After %q, %s", err, res.Status, res.Header.Get("Retry-After"), b)
		}
	}
	if size := s.logs.Find("default").View().Size; size != 0 {
		t.Errorf("%d entries", size)
	}

	// While the log hangs, a bounded number of entries waits; those whose turn does not come are told so.
	s.mu.Lock()
	s.fail = nil
	codes := make(chan int, 60)
	for i := range 60 {
		go func() {
			res, _ := call(t, http1, "POST", url+"/add", bytes.Repeat([]byte{byte(i)}, 100))
			codes <- res.StatusCode
		}()
	}
	got := map[int]int{}
	for range 59 { // all but the one in flight
		got[<-codes]++
	}
	s.mu.Unlock()
	got[<-codes]++
	if got[200] != 1 || got[503] != 59 || s.logs.Find("default").View().Size != 1 {
		t.Errorf("answers: %v, %d entries", got, s.logs.Find("default").View().Size)
	}

	why = "the log is read-only: its key is missing"
	if res, b := call(t, http1, "POST", url+"/add", []byte("x")); res.StatusCode != 503 || !strings.Contains(string(b), why) {
		t.Errorf("read-only: %s %s", res.Status, b)
	}
	if res, _ := call(t, http1, "POST", url+"/logs/none/add", []byte("x")); res.StatusCode != 404 {
		t.Errorf("no such log: %s", res.Status)
	}
	if l := counts.Log("default"); l.Added.Load() != 1 || l.Refused.Load() != 4+59+1 || l.Unknown.Load() != 2 {
		t.Errorf("counted: %d added, %d refused, %d unknown", l.Added.Load(), l.Refused.Load(), l.Unknown.Load())
	}
}

// TestALearnerServesReaders: what is published can be read everywhere; a client that adds goes on to a member that votes.
func TestALearnerServesReaders(t *testing.T) {
	counts := new(meter.Tlog)
	s, _, url := open(t, Options{Meter: counts}, "default")
	expect(t, http1, "POST", url+"/add", 200)
	s.signNow("default")
	s.learner.Store(true)
	for _, method := range []string{"GET", "HEAD"} {
		expect(t, http1, method, url+"/checkpoint", 200)
		expect(t, http1, method, url+"/tile/0/000.p/1", 200)
		expect(t, http1, method, url+"/tile/entries/000.p/1", 200)
	}
	for _, path := range []string{"/add", "/add?proof=1"} {
		res, b := call(t, http1, "POST", url+path, []byte("x"))
		if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(string(b), "learner") {
			t.Errorf("%s: %s %s", path, res.Status, b)
		}
	}
	if l := counts.Log("default"); s.logs.Find("default").View().Size != 1 || l.Refused.Load() != 2 {
		t.Errorf("%d entries, %d refused", s.logs.Find("default").View().Size, l.Refused.Load())
	}
	s.learner.Store(false)
	expect(t, http1, "POST", url+"/add", 200)
}

// TestBeforeTheFirstKey: a server whose default log has not begun.
func TestBeforeTheFirstKey(t *testing.T) {
	_, _, url := open(t, Options{})
	expect(t, http1, "GET", url+"/checkpoint", 404)
	if res, _ := call(t, http1, "POST", url+"/add", []byte("x")); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("add: %s", res.Status)
	}
}

// TestSimpleClients: HTTP/1.0, Connection: close and chunks are how small verifiers and scripts speak.
func TestSimpleClients(t *testing.T) {
	_, _, url := open(t, Options{}, "default")
	for request, code := range map[string]string{
		"GET /checkpoint HTTP/1.0\r\n\r\n":                                                               "200",
		"GET /checkpoint HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":                       "200",
		"POST /add HTTP/1.0\r\nContent-Length: 1\r\n\r\nx":                                               "200",
		"POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n": "200",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(wait.Limit(t)))
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.Contains(line, " "+code+" ") {
			t.Errorf("%q: %q, %v", request, line, err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil { // the server ends it
			t.Errorf("%q: the connection stays open: %v", request, err)
		}
		c.Close()
	}
}
