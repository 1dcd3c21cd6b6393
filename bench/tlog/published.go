package main

// Published is one run of Tessera's published performance report. The server was on an e2-micro machine (one shared core, 1 GB), the load
// on another machine. The reading is of a window of 30 s. Times are averages of intervals, and those to integrate include up to 0.6 s of
// the load tool's own polling.
type Published struct {
	Run       string    `json:"run"`
	PerSecond float64   `json:"adds_per_second"`
	Offered   float64   `json:"offered_per_second"`
	Writers   int       `json:"writers"`
	Queue     PubSpread `json:"time_in_queue"`
	Integrate PubSpread `json:"time_to_integrate"`
}

// PubSpread is the report's least, average and most of intervals' averages, in milliseconds.
type PubSpread struct {
	Min float64 `json:"min_ms"`
	Avg float64 `json:"avg_ms"`
	Max float64 `json:"max_ms"`
}

// The runs that are repeated: with the database on the machine of the server, and with Tessera's POSIX driver on a small machine.
const (
	onMySQL = 0
	onFiles = 2
)

var published = []Published{
	onMySQL: {"MySQL on the same machine", 307, 409, 256, PubSpread{86, 566, 2172}, PubSpread{516, 1056, 2531}},
	1:       {"Cloud SQL", 2047, 2571, 512, PubSpread{41, 120, 288}, PubSpread{568, 636, 782}},
	onFiles: {"POSIX files", 1587, 1758, 600, PubSpread{149, 371, 692}, PubSpread{569, 1191, 1878}},
}
