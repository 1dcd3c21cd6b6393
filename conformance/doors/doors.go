package main

// door is the packages, programs and scripts that are run for one door.
type door struct {
	name string
	// packages is where the door's own code lives: patterns for `go list`.
	packages []string
	// own are the programs that check it, below conformance; fullOnly those that take longer to install than the rest to run.
	own, fullOnly []string
	// scripts bring what the programs run; fullScripts what only a full run needs.
	scripts, fullScripts []string
	quick, full          []group
}

// group is one program with its arguments.
type group struct {
	door, name string
	args       []string
	// fixedPorts: it listens where etcd's suites do or at the first ports it finds free, so no other such group may run beside it.
	fixedPorts bool
}

var doors = []door{
	{
		name:     "kv",
		packages: []string{"./doors/kv/..."},
		own:      []string{"./conformance", "./conformance/v3diff", "./conformance/v2diff", "./conformance/etcdfile", "./conformance/etcdsuite", "./conformance/e2e"},
		fullOnly: []string{"./conformance/clientsuite", "./conformance/kube"},
		scripts:  []string{"scripts/peers.sh", "scripts/e2esuite.sh", "scripts/etcd3gw.sh"}, fullScripts: []string{"scripts/clientsuites.sh", "scripts/kube.sh", "scripts/jetcd.sh"},
		quick: []group{
			// Those that take longest first.
			{name: "etcdctl 3.7.3, one member", args: []string{"build/conformance", "-quick", "-nodes", "1", "-only", "etcdctl-3.7.3"}},
			{name: "etcdctl 3.7.3, three members", args: []string{"build/conformance", "-quick", "-nodes", "3", "-only", "etcdctl-3.7.3"}},
			{name: "etcdctl 3.4, three members", args: []string{"build/conformance", "-quick", "-nodes", "3", "-only", "etcdctl-3.4"}},
			{name: "etcdctl 3.4, one member", args: []string{"build/conformance", "-quick", "-nodes", "1", "-only", "etcdctl-3.4"}},
			{name: "etcd's tests/common", args: []string{"build/etcdsuite", "-quick"}, fixedPorts: true},
			{name: "etcd's tests/e2e", args: []string{"build/e2e", "-quick"}, fixedPorts: true},
			{name: "random v2 requests", args: []string{"build/v2diff", "-n", "50"}},
			{name: "random v3 requests", args: []string{"build/v3diff", "-n", "50"}},
			{name: "to etcd and back by files", args: []string{"build/etcdfile", "-keys", "3000"}},
		},
		full: []group{
			{name: "etcdctl beside etcd", args: []string{"build/conformance", "-door", "kv"}},
			{name: "random v3 requests, one member", args: []string{"build/v3diff", "-members", "1"}},
			{name: "random v3 requests, three members", args: []string{"build/v3diff", "-members", "3"}},
			{name: "random v2 requests, one member", args: []string{"build/v2diff", "-members", "1"}, fixedPorts: true},
			{name: "random v2 requests, three members", args: []string{"build/v2diff", "-members", "3"}, fixedPorts: true},
			{name: "to etcd and back by files, few keys", args: []string{"build/etcdfile", "-keys", "3000"}},
			{name: "to etcd and back by files", args: []string{"build/etcdfile"}},
			{name: "etcd's tests/common", args: []string{"build/etcdsuite"}, fixedPorts: true},
			{name: "etcd's tests/e2e", args: []string{"build/e2e"}, fixedPorts: true},
			// Where it stands beside the original: build/clientsuite -against original.
			{name: "other clients' suites", args: []string{"build/clientsuite"}, fixedPorts: true},
			{name: "Kubernetes' API server", args: []string{"build/kube"}, fixedPorts: true},
			{name: "crowds of watches for ten minutes", args: []string{"build/kube", "-crowd", "10m"}, fixedPorts: true},
		},
	},
	{
		name:     "tlog",
		packages: []string{"./doors/tlog/..."},
		own:      []string{"./conformance/tlog"},
		scripts:  []string{"scripts/tessera.sh"}, fullScripts: []string{"scripts/mariadb.sh"}, // a quick run does without a database where none is installed
		quick: []group{{name: "Tessera's tools", args: []string{"build/tlog", "-quick"}}},
		full:  []group{{name: "Tessera's tools", args: []string{"build/tlog"}}},
	},
	{
		name:     "saga",
		packages: []string{"./doors/saga/..."},
		own:      []string{"./conformance/saga"},
		fullOnly: []string{"./conformance/saga/dtmsuite", "./conformance/saga/hanging", "./conformance/saga/transfer"},
		scripts:  []string{"scripts/dtm.sh"}, fullScripts: []string{"scripts/dtmclients.sh", "scripts/dtmsuite.sh", "scripts/mariadb.sh"},
		quick: []group{{name: "DTM's quick start and Go client", args: []string{"build/saga", "-quick"}}},
		full: []group{
			{name: "DTM's clients", args: []string{"build/saga"}},
			{name: "DTM's own suite", args: []string{"build/dtmsuite"}},
			{name: "healthy transactions beside those that hang", args: []string{"build/hanging"}},
			// ROUNDS in the environment: so many instead of 30.
			{name: "money transfers while everything is killed", args: []string{"build/transfer"}},
			{name: "the tree without the door", args: []string{"env", "CRASH=long", "go", "test", "./conformance/toy", "-count=1", "-timeout", "20m", "-run", "^TestADoorCanBeTakenOut$"}},
		},
	},
	{
		name:     "sql",
		packages: []string{"./doors/sql/..."},
		own:      []string{"./conformance/sql"},
		fullOnly: []string{"./conformance/sqldiff"}, // a quick run does without MariaDB
		scripts:  []string{"scripts/sysbench.sh"}, fullScripts: []string{"scripts/sqlclients.sh", "scripts/mariadb.sh"},
		quick: []group{{name: "sysbench, clients, kills", args: []string{"build/sql", "-quick"}}},
		full: []group{
			// ROWS in the environment: so many rows in each of the 10 tables that are loaded before kills, instead of 100,000.
			{name: "sysbench, clients, kills", args: []string{"build/sql"}},
			{name: "60,000 statements by the executor and by the planner", args: []string{"env", "PLANS=long", "go", "test", "./doors/sql", "-count=1", "-timeout", "30m", "-run", "^TestExecutorAnswersAlike$"}},
			{name: "random scripts of several sessions beside MariaDB", args: []string{"build/sqldiff"}},
			{name: "20,000 executions with plans and without", args: []string{"env", "PLANS=long", "go", "test", "./doors/sql", "-count=1", "-timeout", "20m", "-run", "^TestPlansAnswerAlike$"}},
			{name: "simulation, 1,000 seeds", args: []string{"go", "test", "./doors/sql/sim", "-count=1", "-timeout", "1h", "-run", "^TestTransactionsHold$", "-args", "-n", "1000"}},
		},
	},
	{
		name:     "archive", // no door, but the archive behind all of them
		packages: []string{"./archive/...", "./objstore", "./serve/ack"},
		own:      []string{"./conformance/archive"},
		scripts:  []string{"scripts/peers.sh"}, fullScripts: []string{"scripts/versitygw.sh"},
		quick: []group{{name: "a disk goes", args: []string{"build/archive", "-quick"}}},
		full: []group{
			{name: "a disk goes", args: []string{"build/archive"}},
			{name: "disks that go and stores that fail, many times", args: []string{"env", "CRASH=long", "go", "test", "./conformance/crash", "-count=1", "-timeout", "1h", "-run",
				"TestTheDiskIsGone|TestTheStoreIsDown|TestTwoServersShipToOnePlace|TestArchiveOverAChangeOfLeader"}},
		},
	},
	{
		name:        "sqlite",
		packages:    []string{"./sqlite/..."},
		own:         []string{"./conformance/sqlite/clients", "./conformance/sqlite/crash", "./conformance/sqlite/matrix"},
		fullOnly:    []string{"./conformance/sqlite/litestreamsuite", "./conformance/sqlite/readers", "./conformance/sqlite/beside"},
		scripts:     []string{"scripts/sqliteclients.sh", "scripts/extension.sh"},
		fullScripts: []string{"scripts/sqlitelinked.sh", "scripts/litestreamsuite.sh", "scripts/sqlitepeers.sh"},
		quick: []group{
			{name: "kills and takeovers", args: []string{"build/crash", "-quick", "-only", "^kill|^takeover"}},
			{name: "foreign hands, failing stores, damage", args: []string{"build/crash", "-quick", "-only", "^foreign|^the store|^damage"}},
			{name: "Django and Rails with the extension", args: []string{"build/clients", "-quick"}},
			{name: "a slice of every set-up", args: []string{"build/matrix", "-part", "7/40"}},
		},
		full: []group{
			{name: "clients with the extension", args: []string{"build/clients"}},
			{name: "kills, takeovers, foreign hands, failing stores, damage", args: []string{"build/crash"}},
			{name: "every set-up", args: []string{"build/matrix"}},
			{name: "what people do with Litestream, with both", args: []string{"build/beside"}},
			{name: "stories of new users", args: []string{"env", "STORIES=long", "go", "test", "./conformance/sqlite/stories", "-count=1", "-parallel", "8", "-timeout", "20m"}},
			{name: "Litestream and ltx read what we write, and we what they write", args: []string{"build/readers"}},
			{name: "Litestream's own tests", args: []string{"build/litestreamsuite"}},
		},
	},
	{
		name:     "strangers", // no door, but clients of all of them
		packages: []string{"./serve/port/...", "./internal/budget"},
		own:      []string{"./conformance/strangers"},
		quick:    []group{{name: "eight attacks", args: []string{"build/strangers", "-quick"}}},
		full:     []group{{name: "every attack", args: []string{"build/strangers"}}},
	},
	{
		name:        "week", // no door, but members and their operator
		packages:    []string{"./conformance/week"},
		fullOnly:    []string{"./conformance/week"},
		fullScripts: []string{"scripts/peers.sh", "scripts/jetcd.sh"},
		full:        []group{{name: "a week of three members", args: []string{"build/week"}}},
	},
}

func (d *door) groups(quick bool) []group {
	all := d.full
	if quick {
		all = d.quick
	}
	out := make([]group, len(all))
	for i, g := range all {
		g.door = d.name
		g.name = d.name + ": " + g.name
		out[i] = g
	}
	return out
}

func (d *door) prepare(quick bool) [][]string {
	var steps [][]string
	for _, s := range d.scripts {
		steps = append(steps, []string{s})
	}
	if !quick {
		for _, s := range d.fullScripts {
			steps = append(steps, []string{s})
		}
	}
	return steps
}

func (d *door) programs(quick bool) []string {
	if quick {
		return d.own
	}
	return append(append([]string(nil), d.own...), d.fullOnly...)
}
