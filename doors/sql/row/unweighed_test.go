package row

import (
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
)

// TestUnweighed: texts that utf8mb4_0900_ai_ci weighs otherwise than character by character are found, and no others.
func TestUnweighed(t *testing.T) {
	for s, want := range map[string]rune{
		"": 0, "plain text, 1.5 €": 0, "\t\n": 0, "Ärger à la carte, niño": 0, "Привет": 0, "日本語": 0, "한국어": 0, "😀": 0,
		"Straße": 'ß', "æther": 'æ', "œuvre": 'œ', "oﬃce": 'ﬃ', "½": '½', "e\u0301": 0x301, "soft\u00adhyphen": 0xad, "a\x01": 1, "zero\u200bwidth": 0x200b,
		"col·la": '·', "a·b": 0, "เก": 'ก', "ก": 0, "\u1100\u1161": 0x1100,
	} {
		got, is := Unweighed(sql.Collation_utf8mb4_0900_ai_ci, s)
		if got != want || is != (want != 0) {
			t.Errorf("%q: %q %v, want %q", s, got, is, want)
		}
		if _, is := Unweighed(sql.Collation_utf8mb4_general_ci, s); is {
			t.Errorf("%q: found by utf8mb4_general_ci", s)
		}
	}
}
