// Package like matches names with the patterns of SQL's LIKE. It knows no collations: a caller that does not care for case folds both before.
package like

// Match reports whether a name matches a pattern: % stands for any text, _ for one character, and a backslash escapes the next character.
// It takes time in proportion to the product of both lengths at most: patterns come from clients.
func Match(name, pattern string) bool {
	n, p := []rune(name), []rune(pattern)
	var i, j int
	after, from := -1, 0 // where to go on if the text for the last % was too short
	for i < len(n) {
		switch {
		case j < len(p) && p[j] == '%':
			after, from = j+1, i
			j++
			continue
		case j+1 < len(p) && p[j] == '\\':
			if p[j+1] == n[i] {
				i, j = i+1, j+2
				continue
			}
		case j < len(p) && (p[j] == '_' || p[j] == n[i]):
			i, j = i+1, j+1
			continue
		}
		if after < 0 {
			return false
		}
		from++
		i, j = from, after
	}
	for j < len(p) && p[j] == '%' {
		j++
	}
	return j == len(p)
}
