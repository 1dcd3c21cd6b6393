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
