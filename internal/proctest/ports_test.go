package proctest

import (
	"fmt"
	"os"
	"testing"
)

// TestAPortOfAnotherProcess: a port that another process has named is not looked at, although it has no listener at the moment.
func TestAPortOfAnotherProcess(t *testing.T) {
	var other *os.File
	for port := 31999; other == nil; port-- { // one that no test beside this one has
		t.Setenv(PortsVariable, fmt.Sprintf("%d-%d", port, port))
		var err error
		if other, err = reserve(port); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := freePorts(1); err == nil {
		t.Errorf("%v is given twice", got)
	}
	other.Close()
	if got, err := freePorts(1); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
