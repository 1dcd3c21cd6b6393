package v2

import "fmt"

// members of the cluster measured, as in the report.
const members = 3

// Cell is one line of the report's table.
type Cell struct {
	Op      string `json:"op"`
	Tool    string `json:"tool"`
	Size    int    `json:"value_bytes"`
	Clients int    `json:"clients"` // in all; shared out evenly, rounded down, if the target is all members
	Target  string `json:"target"`
}

func (c Cell) String() string {
	return fmt.Sprintf("%s by %s, %d B, %d clients, %s", c.Op, c.Tool, c.Size, c.Clients, c.Target)
}

// cells lists what to measure. Sizes are outermost and reads come before writes. So no server meets freshly overwritten keys in its reads
// more often than the other.
func (cfg *Config) cells() (out []Cell, err error) {
	for _, size := range cfg.Sizes {
		for _, op := range cfg.Ops {
			for _, tool := range cfg.Tools {
				for _, target := range cfg.Targets {
					for _, clients := range cfg.Clients {
						switch {
						case op != "read" && op != "write":
							return nil, fmt.Errorf("no operation %q", op)
						case tool != "hey" && tool != "wrk":
							return nil, fmt.Errorf("no tool %q", tool)
						case target != "leader" && target != "all":
							return nil, fmt.Errorf("no target %q", target)
						case op == "write" && tool == "wrk":
							continue // wrk needs a script to send a form, and writes are not what hey holds back
						case target == "all" && clients < members:
							continue
						}
						out = append(out, Cell{op, tool, size, clients, target})
					}
				}
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("nothing to measure")
	}
	return out, nil
}

// perMember is how many clients each address gets.
func (c Cell) perMember() int {
	if c.Target == "all" {
		return c.Clients / members
	}
	return c.Clients
}
