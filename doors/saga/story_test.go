package saga

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/internal/golden"
)

// TestStories runs the scripts in testdata: requests, and behind each what was answered. With -rewrite the answers are written anew. A line of
// a script is
//
//	# …                 a remark
//	METHOD /path        a request; the lines up to an empty one or an answer are its body
//	forward MS          time passes, and what is due has its pass
//	put KEY VALUE       a key is written
//	< STATUS …          the answer, with what headers clients look at
//	< …                 and its body
//
// Each script has a member of its own.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, file, serve(t, Options{Version: "1.19.0", KV: keys}).story(string(b)))
		})
	}
}

// story runs a script and returns it with the answers it gets.
func (s *served) story(script string) string {
	s.t.Helper()
	var out strings.Builder
	lines := strings.Split(script, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(line, "<"):
			continue
		case line == "" && i == len(lines)-1:
			return out.String()
		case line == "" || word == "#":
		case word == "forward":
			ms, err := strconv.ParseInt(rest, 10, 64)
			if err != nil {
				s.t.Fatalf("line %d: %v", i+1, err)
			}
			s.forward(ms)
		case word == "put":
			key, value, _ := strings.Cut(rest, " ")
			s.put(key, value)
		case word == "GET" || word == "POST" || word == "DELETE" || word == "PUT" || word == "OPTIONS":
			var body []string
			for i+1 < len(lines) && lines[i+1] != "" && !strings.HasPrefix(lines[i+1], "<") {
				i++
				body = append(body, lines[i])
			}
			fmt.Fprintln(&out, line)
			for _, l := range body {
				fmt.Fprintln(&out, l)
			}
			out.WriteString(s.answered(word, rest, strings.Join(body, "\n")))
			continue
		default:
			s.t.Fatalf("line %d: %s?", i+1, line)
		}
		fmt.Fprintln(&out, line)
	}
	return out.String()
}

// answered is what a request gets, once nothing is under way any more.
func (s *served) answered(method, path, body string) string {
	code, h, answer := s.do(method, path, body)
	s.passes.Wait()
	head := "< " + strconv.Itoa(code)
	if kind := h.Get("Content-Type"); kind != "application/json; charset=utf-8" && kind != "" {
		head += " " + kind
	}
	if h.Get("Retry-After") != "" {
		head += ", retry after " + h.Get("Retry-After")
	}
	var out strings.Builder
	fmt.Fprintln(&out, head)
	for line := range strings.Lines(answer) {
		fmt.Fprintln(&out, "<", strings.TrimSuffix(line, "\n"))
	}
	return out.String()
}
