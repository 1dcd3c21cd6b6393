package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A reader's first impression, before deciding to go on.
const (
	readmeLines = 120
	cellWords   = 15
)

// TestTheReadmeIsShort: what does not fit on the first page has a page in docs.
func TestTheReadmeIsShort(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range long(string(page), readmeLines, cellWords) {
		t.Errorf("README.md: %s", f)
	}
}

var linkTarget = regexp.MustCompile(`\]\([^)]*\)`)

// long reports a page of more than so many lines, and each table cell of more than so many words. A link counts as its text.
func long(page string, lines, words int) (found []string) {
	if n := strings.Count(page, "\n"); n > lines {
		found = append(found, fmt.Sprintf("%d lines, at most %d", n, lines))
	}
	for line := range strings.Lines(fence.ReplaceAllString(page, "")) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for _, cell := range strings.Split(strings.Trim(linkTarget.ReplaceAllString(line, "]"), "|"), "|") {
			if n := len(strings.Fields(cell)); n > words {
				found = append(found, fmt.Sprintf("a cell of %d words, at most %d: %s", n, words, strings.TrimSpace(cell)))
			}
		}
	}
	return found
}

func TestLongPagesAreFound(t *testing.T) {
	const table = "| a | b |\n|---|---|\n| one two three | [four](a b c d) five six |\n"
	expect(t, "fits", long(table, 3, 3))
	expect(t, "a line too many", long(table, 2, 3), "3 lines")
	expect(t, "a word too many", long(table, 3, 2), "one two three", "[four] five six")
	expect(t, "no table", long("one two three four\n```\n| one two three four |\n```\n", 9, 3))
}
