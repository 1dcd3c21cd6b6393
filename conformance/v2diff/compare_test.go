package main

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"testing"
)

// A comparison that sees no difference anywhere would also be satisfied.
func TestDifferencesAreSeen(t *testing.T) {
	answer := func(status int, index, body string, first uint64) *response {
		return &response{status, http.Header{"X-Etcd-Index": {index}, "Content-Type": {"application/json"}}, body, first}
	}
	key := `{"action":"get","node":{"key":"/a","value":"v","modifiedIndex":12,"createdIndex":11}}`
	base := answer(200, "12", key, 10)
	for _, c := range []struct {
		what  string
		other *response
		same  bool
	}{
		{"indexes further on", answer(200, "22", `{"action":"get","node":{"key":"/a","value":"v","modifiedIndex":22,"createdIndex":21}}`, 20), true},
		{"another status", answer(201, "12", key, 10), false},
		{"another index", answer(200, "13", key, 10), false},
		{"another value", answer(200, "12", `{"action":"get","node":{"key":"/a","value":"w","modifiedIndex":12,"createdIndex":11}}`, 10), false},
		{"another created index", answer(200, "12", `{"action":"get","node":{"key":"/a","value":"v","modifiedIndex":12,"createdIndex":12}}`, 10), false},
		{"other white space", answer(200, "12", key+" ", 10), false},
	} {
		if diff := compare(&step{query: url.Values{}}, base, c.other); (diff == "") != c.same {
			t.Errorf("%s: %q", c.what, diff)
		}
	}
	moved := func(index string, first uint64) *response {
		return &response{301, http.Header{"Location": {"/v2/keys/b?waitIndex=" + index}}, `<a href="/v2/keys/b?waitIndex=` + index + `">Moved</a>.`, first}
	}
	for _, c := range []struct {
		index string
		first uint64
		same  bool
	}{{"298", 284, true}, {"299", 284, false}} {
		if diff := compare(&step{query: url.Values{}}, moved("294", 280), moved(c.index, c.first)); (diff == "") != c.same {
			t.Errorf("a redirect with the request's index, %s from %d: %q", c.index, c.first, diff)
		}
	}
	if diff := compare(&step{query: url.Values{}}, moved("1", 280), moved("1", 284)); diff != "" {
		t.Errorf("a redirect with an index of the script's own: %s", diff)
	}
	one := answer(200, "9", `{"nodes":[{"key":"/a"},{"key":"/b"}]}`, 1)
	two := answer(200, "9", `{"nodes":[{"key":"/b"},{"key":"/a"}]}`, 1)
	if diff := compare(&step{query: url.Values{}}, one, two); diff != "" {
		t.Errorf("a listing is a set: %s", diff)
	}
	if compare(&step{query: url.Values{"sorted": {"true"}}}, one, two) == "" {
		t.Error("a sorted listing is no set")
	}
}

func TestASeedGivesTheSameScript(t *testing.T) {
	draw := func() (all string) {
		s := newScript(rand.New(rand.NewPCG(7, 3)), 3)
		for range 50 {
			all += s.next().String() + "\n"
		}
		return all
	}
	if first, second := draw(), draw(); first != second {
		t.Error("two scripts of one seed differ")
	}
}
