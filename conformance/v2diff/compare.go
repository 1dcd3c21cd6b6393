package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// compare returns "" if two answers to a step say the same.
func compare(st *step, a, b *response) string {
	var diffs []string
	differ := func(what string, x, y any) {
		if !reflect.DeepEqual(x, y) {
			diffs = append(diffs, fmt.Sprintf("%s:\n  etcd %v\n  ours %v", what, x, y))
		}
	}
	differ("status", a.status, b.status)
	for _, h := range []string{"Content-Type", "Allow", "Location"} {
		differ(h, echoes(a.header.Get(h), a.first), echoes(b.header.Get(h), b.first))
	}
	for _, h := range []string{"Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Content-Encoding"} {
		differ(h, a.header.Values(h), b.header.Values(h))
	}
	for _, h := range []string{"X-Etcd-Cluster-Id", "X-Raft-Index", "X-Raft-Term"} {
		differ("has "+h, a.header.Get(h) != "", b.header.Get(h) != "")
	}
	differ("X-Etcd-Index", relative(a.header.Get("X-Etcd-Index"), a.first), relative(b.header.Get("X-Etcd-Index"), b.first))
	x, y := normal(a), normal(b)
	if x != y && strings.Contains(x, `"nodes"`) && !truthy(st.query.Get("sorted")) {
		differ("body as a set", unordered(x), unordered(y))
	} else {
		differ("body", x, y)
	}
	if len(diffs) == 0 {
		return ""
	}
	return "→ " + st.String() + "\n" + strings.Join(diffs, "\n")
}

func truthy(s string) bool {
	v, _ := strconv.ParseBool(s)
	return v
}

// relative counts an index from the script's first; 0 is what both say before they have looked.
func relative(text string, first uint64) string {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return text
	}
	return fmt.Sprintf("+%d", int64(n-first))
}

// echoes makes the indexes of a request relative where its query stands in an answer, as in a redirect. Those that the script
// itself drew, very small or very large ones, are the same for both.
func echoes(text string, first uint64) string {
	return queryIndex.ReplaceAllStringFunc(text, func(m string) string {
		k, v, _ := strings.Cut(m, "=")
		if n, err := strconv.ParseUint(v, 10, 64); err != nil || n < first || n-first > 1<<20 {
			return m
		}
		return k + "=" + relative(v, first)
	})
}

var (
	queryIndex = regexp.MustCompile(`(waitIndex|prevIndex)=\d+`)
	indexField = regexp.MustCompile(`"(modifiedIndex|createdIndex|index)":(\d+)`)
	inOrder    = regexp.MustCompile(`/(\d{20})`)
	mismatch   = regexp.MustCompile(`\[(\d+) (!=) (\d+)\]`)
	cleared    = regexp.MustCompile(`\[(\d+)(/)(\d+)\]`)
	expiration = regexp.MustCompile(`"expiration":"[^"]*"`)
	ttl        = regexp.MustCompile(`"ttl":(\d+)`)
)

// normal is a body with indexes made relative and times left out.
func normal(r *response) string {
	s := indexField.ReplaceAllStringFunc(echoes(r.body, r.first), func(m string) string {
		k, v, _ := strings.Cut(m, ":")
		return k + ":" + strconv.Quote(relative(v, r.first)) // quoted: it must stay JSON
	})
	s = inOrder.ReplaceAllStringFunc(s, func(m string) string {
		n, _ := strconv.ParseUint(strings.TrimLeft(m[1:], "0"), 10, 64)
		return fmt.Sprintf("/in-order%+d", int64(n-r.first))
	})
	for _, re := range []*regexp.Regexp{mismatch, cleared} {
		s = re.ReplaceAllStringFunc(s, func(m string) string {
			f := re.FindStringSubmatch(m)
			return "[" + relative(f[1], r.first) + f[2] + relative(f[3], r.first) + "]"
		})
	}
	s = expiration.ReplaceAllString(s, `"expiration":"T"`)
	return ttl.ReplaceAllString(s, `"ttl":"T"`)
}

// unordered is a listing with the nodes of each directory sorted by key.
func unordered(body string) any {
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		return body + " is no JSON: " + err.Error()
	}
	sortNodes(v)
	return v
}

func sortNodes(v any) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	sortNodes(m["node"])
	nodes, _ := m["nodes"].([]any)
	for _, n := range nodes {
		sortNodes(n)
	}
	key := func(i int) string {
		n, _ := nodes[i].(map[string]any)
		k, _ := n["key"].(string)
		return k
	}
	sort.Slice(nodes, func(i, j int) bool { return key(i) < key(j) })
}
