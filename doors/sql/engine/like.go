package engine

// Like reports whether a name matches a pattern of LIKE: % is any text, _ one byte, \ takes the next byte as it is. It takes time in proportion to
// the product of both lengths at most: a pattern comes from a client.
func Like(name, pattern string) bool {
	i, p := 0, 0
	star, from := -1, 0 // behind the last %, and how much of the name that has taken
	for i < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '%':
			p++
			star, from = p, i
			continue
		case p < len(pattern) && pattern[p] == '\\' && p+1 < len(pattern):
			if name[i] == pattern[p+1] {
				i, p = i+1, p+2
				continue
			}
		case p < len(pattern) && (pattern[p] == '_' || pattern[p] == name[i]):
			i, p = i+1, p+1
			continue
		}
		if star < 0 {
			return false
		}
		from++
		i, p = from, star
	}
	for p < len(pattern) && pattern[p] == '%' {
		p++
	}
	return p == len(pattern)
}
