package agentsim

import (
	"fmt"
	"time"
)

// Add sums up what happened in another run.
func (r *Report) Add(o *Report) {
	r.Simulated += o.Simulated
	r.Commits, r.Acked, r.Groups, r.Fences, r.Levels = r.Commits+o.Commits, r.Acked+o.Acked, r.Groups+o.Groups, r.Fences+o.Fences, r.Levels+o.Levels
	r.Removed, r.Takeovers, r.Kills, r.PowerCuts = r.Removed+o.Removed, r.Takeovers+o.Takeovers, r.Kills+o.Kills, r.PowerCuts+o.PowerCuts
	r.Stops, r.Copies, r.Restores, r.Checkpoints = r.Stops+o.Stops, r.Copies+o.Copies, r.Restores+o.Restores, r.Checkpoints+o.Checkpoints
	r.Restarts, r.Exclusive, r.Requests, r.Lost = r.Restarts+o.Restarts, r.Exclusive+o.Exclusive, r.Requests+o.Requests, r.Lost+o.Lost
	r.Held, r.Judged = r.Held+o.Held, r.Judged+o.Judged
}

// String is the events of a run, in one line.
func (r *Report) String() string {
	return fmt.Sprintf("%v simulated, %d commits, %d acknowledged, %d groups, %d fences, %d files of levels, %d files removed, %d agents started, "+
		"%d kills, %d power cuts, %d stops, %d copies of disks, %d restores, %d checkpoints, %d WALs started anew, %d exclusive connections, "+
		"%d requests, %d answers lost, %d uploads held, %d states judged", r.Simulated.Round(time.Second), r.Commits, r.Acked, r.Groups, r.Fences,
		r.Levels, r.Removed, r.Takeovers, r.Kills, r.PowerCuts, r.Stops, r.Copies, r.Restores, r.Checkpoints, r.Restarts, r.Exclusive, r.Requests,
		r.Lost, r.Held, r.Judged)
}
