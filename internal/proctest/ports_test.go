package proctest

import "testing"

// TestAPortOfAnotherProcess: a port that another process has named is not looked at, although nobody listens there at the moment.
func TestAPortOfAnotherProcess(t *testing.T) {
	t.Setenv(PortsVariable, "31990-31990")
	other, err := reserve(31990)
	if err != nil {
		t.Fatal(err)
	}
	if other == nil {
		t.Skip("another test has it already")
	}
	if got, err := freePorts(1); err == nil {
		t.Errorf("%v is given twice", got)
	}
	other.Close()
	if got, err := freePorts(1); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
