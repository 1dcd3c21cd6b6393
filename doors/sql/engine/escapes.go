package engine

import "strings"

// keptEscapes has a second backslash before \% and \_ in the texts of a text's first statement. They stand for themselves, so that a pattern of LIKE has
// them, and the parser would drop the backslash.
func keptEscapes(text string, ansi bool) string {
	if !strings.Contains(text, `\%`) && !strings.Contains(text, `\_`) {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		c, rest := text[i], text[i:]
		end := i + 1
		switch {
		case c == ';':
			out.WriteString(rest)
			return out.String()
		case c == '\'' || c == '"' && !ansi:
			end = closing(text, i)
			for ; i < end; i++ {
				if text[i] == '\\' && i+1 < end {
					if next := text[i+1]; next == '%' || next == '_' {
						out.WriteByte('\\')
					}
					out.WriteByte('\\')
					i++
				}
				out.WriteByte(text[i])
			}
			continue
		case c == '`' || c == '"':
			end = closing(text, i)
		case c == '#', strings.HasPrefix(rest, "-- "), strings.HasPrefix(rest, "--\n"), strings.HasPrefix(rest, "--\t"):
			end = upTo(text, i, "\n")
		case strings.HasPrefix(rest, "/*") && !strings.HasPrefix(rest, "/*!"):
			end = upTo(text, i+2, "*/")
		}
		out.WriteString(text[i:end])
		i = end
	}
	return out.String()
}
