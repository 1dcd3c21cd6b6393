// Doors that package sim does not know take part in its runs when a line here imports what registers them (Register).
package sim_test

import (
	_ "github.com/holdfastdb/holdfast/doors/saga/sim"
	_ "github.com/holdfastdb/holdfast/doors/sql/sim"
	_ "github.com/holdfastdb/holdfast/doors/tlog/sim"
)
