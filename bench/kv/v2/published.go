package v2

// Published is one line of the report published for etcd 2.2.0. It had three members of 2 processors and 1.8 GB, each on a machine of its
// own, and the load came from a fourth. Its figures are means of 100 short runs. Its "all servers" reads went to one member after the other
// and were added up; those measured here go to all at once.
type Published struct {
	Op        string  `json:"op"`
	Size      int     `json:"value_bytes"`
	Clients   int     `json:"clients"`
	Target    string  `json:"target"`
	PerSecond float64 `json:"per_second"`
	Deviation float64 `json:"per_second_deviation"`
	P90       float64 `json:"p90_ms"`
	P90Dev    float64 `json:"p90_deviation_ms"`
}

var published = []Published{
	{"read", 64, 1, "leader", 2303, 200, 0.49, 0.06},
	{"read", 64, 64, "leader", 15048, 685, 7.60, 0.46},
	{"read", 64, 256, "leader", 14508, 434, 29.76, 1.05},
	{"read", 256, 1, "leader", 2162, 214, 0.52, 0.06},
	{"read", 256, 64, "leader", 14789, 792, 7.69, 0.48},
	{"read", 256, 256, "leader", 14424, 512, 29.92, 1.42},
	{"read", 64, 64, "all", 45752, 2048, 2.47, 0.14},
	{"read", 64, 256, "all", 46592, 1273, 10.14, 0.59},
	{"read", 256, 64, "all", 45332, 1847, 2.48, 0.12},
	{"read", 256, 256, "all", 46485, 1340, 10.18, 0.74},
	{"write", 64, 1, "leader", 55, 4, 24.51, 13.26},
	{"write", 64, 64, "leader", 2139, 125, 35.23, 3.40},
	{"write", 64, 256, "leader", 4581, 581, 70.53, 10.22},
	{"write", 256, 1, "leader", 56, 4, 22.37, 4.33},
	{"write", 256, 64, "leader", 2052, 151, 36.83, 4.20},
	{"write", 256, 256, "leader", 4442, 560, 71.59, 10.03},
	{"write", 64, 64, "all", 1625, 85, 58.51, 5.14},
	{"write", 64, 256, "all", 4461, 298, 89.47, 36.48},
	{"write", 256, 64, "all", 1599, 94, 60.11, 6.43},
	{"write", 256, 256, "all", 4315, 193, 88.98, 7.01},
}

// publishedFor finds the published figures of a cell; nil if there are none. The report was made by hey alone.
func publishedFor(c Cell) *Published {
	for i := range published {
		p := &published[i]
		if c.Tool == "hey" && p.Op == c.Op && p.Size == c.Size && p.Clients == c.Clients && p.Target == c.Target {
			return p
		}
	}
	return nil
}
