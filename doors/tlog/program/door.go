// Package program is the tlog door as the program sees it. It has transparency logs over HTTP, their keys, tokens and places, the workers
// behind them and their machine.
package program

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	doortlog "github.com/holdfastdb/holdfast/doors/tlog"
	tlogmachine "github.com/holdfastdb/holdfast/doors/tlog/machine"
	"github.com/holdfastdb/holdfast/doors/tlog/tiles"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/serve"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/serve/port"
)

// logsClaim is for every log's memory in the machine (tlogmachine.LogBytes), edgesClaim for the entries on the right edges of logs.
// packedClaim is for bundles in gzip, kept for the next reader.
const logsClaim, edgesClaim, packedClaim = "logs", "edges", "packed"

// Door is the tlog door.
var Door = serve.Door{
	Name:     "tlog",
	Settings: func() serve.Settings { return new(settings) },
	Machines: func(share budget.Shares) []machine.Machine {
		m := tlogmachine.NewWithin(share.Of(edgesClaim))
		share.Ledger.Hold(logsClaim, budget.Holder{Held: func() int64 { return int64(len(m.Logs())) * tlogmachine.LogBytes }})
		share.Ledger.Hold(edgesClaim, budget.Holder{Held: m.EdgeBytes})
		return []machine.Machine{m}
	},
	Specs: []*machine.Spec{&tlogmachine.Spec},
	Lanes: func(share budget.Shares) []node.LaneSpec {
		return []node.LaneSpec{{Number: doortlog.Lane, Name: "tlog", Bytes: max(int(share.Lane)/2, 4<<20)}}
	},
	Claims: func(on bool) []budget.Claim {
		logs := []budget.Claim{
			{Name: logsClaim, Weight: 8, Floor: 512 << 10, Ceiling: 48 << 20, Kind: budget.Kept}, // the ceiling is for the most logs that there may be
			{Name: edgesClaim, Weight: 8, Floor: 512 << 10, Ceiling: 32 << 20}}
		if !on {
			return budget.Floors(logs) // of the machine, which every member has
		}
		return append(logs, budget.Claim{Name: packedClaim, Weight: 2, Floor: 256 << 10, Ceiling: 16 << 20, Kind: budget.Cache})
	},
	Beside:    []string{keysName},
	Variables: []string{publishPassword},
	Commands:  commands,
	Rows:      "tl transparency logs, tb their entries in bundles, th their tiles",
	Try: func(at cli.Address, data string) []string {
		return []string{
			"curl -d 'release 1.0' '" + at.String() + "/add?proof=1'",
			"holdfast tlog verify http://" + at.String() + " --vkey " + filepath.Join(keyDir(data, ""), defaultLog+".vkey"),
		}
	},
	StatusLines: func(fields map[string]json.RawMessage) (state string, notes []string) {
		var logs []LogStatus
		if fields["logs"] != nil && json.Unmarshal(fields["logs"], &logs) == nil {
			for i := range logs {
				if line := logs[i].line(); line != "" {
					notes = append(notes, line)
				}
			}
		}
		return "", notes
	},
	Resume: resume,
	Saved:  saved,
}

// settings are the door's flags.
type settings struct {
	at     cli.Address
	keys   string // directory; "" = tlog-keys in the data directory
	inData bool   // keys lies in the data directory because no flag named another
	origin string // "" = made up, where a key is made

	publish []publishTo
	// checkpoints is "published" where readers are shown only what every place holds. calm and least replace the times between two
	// checkpoints and between two publications to a place; 0: they do not.
	checkpoints string
	calm, least time.Duration

	read   cli.Address // for reading alone
	tokens string      // file of tokens for adding; "" = public
}

// Options implements doors.Settings.
func (s *settings) Options() []serve.Option {
	return []serve.Option{
		{Name: "tlog", Arg: "ADDR", Default: "127.0.0.1:2025", Door: true, Help: "transparency logs over HTTP (C2SP tlog-tiles), or off",
			Set: func(v string) error { return cli.SetAddress(&s.at, v) }},
		{Name: "tlog-keys", Arg: "DIR", Help: "private keys of the logs, NAME.key each (default: tlog-keys in the data directory)",
			Set: func(v string) error { s.keys = v; return nil }},
		{Name: "tlog-origin", Arg: "NAME", Help: "origin of the log default when a first start makes its key (default: a random one)",
			Set: func(v string) error { return setOrigin(&s.origin, v) }},
		{Name: "tlog-publish", Arg: "[LOG=]URL", List: true, Help: "also keep a log in file:///DIR, s3://BUCKET/PREFIX or mysql://USER@HOST:PORT/DB; may be repeated",
			Set: func(v string) (err error) { s.publish, err = parsePublish(v); return err }},
		{Name: "tlog-checkpoints", Arg: "WHICH", Default: "signed", Help: "the checkpoints readers get: signed, or published for only what every --tlog-publish place of the log holds",
			Set: func(v string) error { return setCheckpoints(&s.checkpoints, v) }},
		{Name: "tlog-checkpoint-interval", Arg: "TIME", Default: "80ms", Help: "when a log that nobody waits for gets a checkpoint after it has begun to grow",
			Set: func(v string) error { return setInterval(&s.calm, v) }},
		{Name: "tlog-publish-interval", Arg: "TIME", Help: "least time between two publications to a place (default: 100ms, to a bucket 1s)",
			Set: func(v string) error { return setInterval(&s.least, v) }},
		{Name: "tlog-read", Arg: "ADDR", Help: "also serve the logs here, for reading alone (GET and HEAD), to everybody, or off (default: off)",
			Set: func(v string) error { return cli.SetAddress(&s.read, v) }},
		{Name: "tlog-tokens", Arg: "FILE", Help: "who may add: lines LOG TOKEN [BYTES/s] [MAXBYTES]; read again within a second (default: everybody, and nobody while authentication of users is on)",
			Set: func(v string) error { s.tokens = v; return nil }},
	}
}

// Listens implements doors.Settings.
func (s *settings) Listens() []serve.Listen {
	return []serve.Listen{
		{Flag: "tlog", At: s.at, Risk: "anyone could add to the logs", Otherwise: ", or --tlog-tokens with --tls-cert and --tls-key", GuardedByTLS: s.tokens != ""},
		{Flag: "tlog-read", At: s.read, Public: true},
	}
}

// Check implements doors.Settings.
func (s *settings) Check() error {
	if s.checkpoints == "published" && len(s.publish) == 0 {
		return cli.Usagef("serve: --tlog-checkpoints published, but nothing is published; give --tlog-publish")
	}
	return nil
}

// Service implements doors.Settings.
func (s *settings) Service(c *serve.Common) (*serve.Service, error) {
	r := &running{set: s, origins: c.Origins, room: func() int64 { return c.Shares.Ledger.Room(logsClaim) }, packed: doortlog.NewPacked(c.Shares.Of(packedClaim))}
	c.Shares.Ledger.Hold(packedClaim, budget.Holder{Held: r.packed.Bytes, Bound: r.packed.Bound})
	s.inData = s.keys == ""
	s.keys = keyDir(c.Dir, s.keys)
	service := &serve.Service{Admin: r.section(), Prepare: r.prepare, Work: r.work, Open: r.open, Shutdown: r.shutdown, Close: r.close}
	if !s.at.Off() {
		r.at = &serve.Place{Network: "tcp", Addr: s.at.String(), Flag: "--tlog", Protocols: port.Protocols{TLS: c.Clients()}}
		service.Places = append(service.Places, *r.at)
	}
	if !s.read.Off() {
		r.read = &serve.Place{Network: "tcp", Addr: s.read.String(), Flag: "--tlog-read", Protocols: port.Protocols{TLS: c.Readers()}}
		service.Places = append(service.Places, *r.read)
	}
	return service, nil
}

func setCheckpoints(dst *string, v string) error {
	if v != "signed" && v != "published" {
		return errors.New("no such checkpoints; choose signed or published")
	}
	*dst = v
	return nil
}

func setInterval(dst *time.Duration, v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < 5*time.Millisecond || d > time.Hour {
		return errors.New("no time from 5ms to 1h; write one like 100ms")
	}
	*dst = d
	return nil
}

func setOrigin(dst *string, v string) error {
	if !tiles.ValidKeyName(v) {
		return errors.New("an origin has no space and no +; write one like log.example.org/2026")
	}
	*dst = v
	return nil
}
