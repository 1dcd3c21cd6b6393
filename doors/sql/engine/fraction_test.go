package engine

import (
	"errors"
	"testing"
)

// TestDigitsOfADefinition: the digits of a TIME come back, and a definition with too many is damaged.
func TestDigitsOfADefinition(t *testing.T) {
	t.Parallel()
	d := &definition{columns: []column{{name: "id", typ: "int"}, {name: "v", typ: "time(6)", nullable: true, digits: 3, comment: "c"}, {name: "w", typ: "time(6)"}},
		primary: []keyPart{{column: 0}}}
	back, err := decodeDefinition(d.append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if back.columns[1].digits != 3 || back.columns[2].digits != 0 || back.columns[1].comment != "c" {
		t.Errorf("came back as %+v", back.columns)
	}
	d.columns[1].digits = mostDigits + 1
	if _, err := decodeDefinition(d.append(nil)); !errors.Is(err, ErrDefinition) {
		t.Errorf("a TIME with %d digits: %v", mostDigits+1, err)
	}
}
