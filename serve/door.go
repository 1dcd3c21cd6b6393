// Package serve defines the contribution of a door to the program: its flags, machines, lanes, workers, ports, subcommands and words. Each
// door is one Door value in a package of its own below this one. The list of a build's doors is in cmd/holdfast/doors.go. Configuration,
// start, shutdown, status, help, snapshots and inspection walk that list and name no door.
package serve

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"

	"github.com/holdfastdb/holdfast/core/machine"
	"github.com/holdfastdb/holdfast/core/node"
	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/serve/admin"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// Door is one protocol, as the command line, the server and the tools for its files see it. It never changes, and its functions may be
// called from any goroutine. Only Name and Settings must be set.
type Door struct {
	// Name is one word: the flag of the door's address, the prefix of its other flags, and its name in log lines.
	Name string
	// Settings begins the settings of one server.
	Settings func() Settings

	// Machines makes the machines that the door brings, for one node, out of shares of its memory. Every node has the machines of all
	// doors, switched on or off, because its log may hold their commands. Specs are the same machines' (machine.Spec).
	Machines func(share budget.Shares) []machine.Machine
	Specs    []*machine.Spec
	// Lanes are where the door's commands wait before the log. A lane's number is the door's for good, its name is a label in metrics.
	Lanes func(share budget.Shares) []node.LaneSpec
	// Claims are the shares of --memory that the door and its machines claim, with the door on or off. A member with the door off still has
	// its machines. The names are the door's own among all doors'. nil: it holds no memory worth a claim.
	Claims func(on bool) []budget.Claim
	// Scratch names directories below the data directory that the door builds something in (node.Config.Scratch).
	Scratch []string
	// Beside names what the door keeps in the data directory, made before the node starts (node.Config.Beside).
	Beside []string

	// Variables are environment variables of the door beside those of its flags: secrets, which a command line would show.
	Variables []string

	// Commands are subcommands of the door's own.
	Commands func() []*cli.Command
	// Try lists commands that show the door at work at an address, data being the server's data directory (`holdfast doors`).
	Try func(at cli.Address, data string) []string
	// Rows names the prefixes of the machines' rows, for the help of inspect store: "kc is the current version of every key".
	Rows string
	// StatusLines turns fields of the answer of GET /v1/status (Service.Admin) into lines of `holdfast status`. state is one short line of
	// figures, "" for none; notes tell the operator what to look at.
	StatusLines func(fields map[string]json.RawMessage) (state string, notes []string)
	// Resume is the door's share of `holdfast resume`; nil: nothing of the door is held by a restore.
	Resume func(l *cli.FlagList) *Resume
	// Import is the door's share of `holdfast import`: it has declared flags in the list. Nil: nothing is imported into the door this way.
	Import func(l *cli.FlagList) *Import
	// Saved begins to read a snapshot, and gathers the door's part of the report on it.
	Saved func() *Saved
	// Alias runs this program under the name of the original that the door stands in for; nil: it has no other name.
	Alias *Alias
	// Original looks at the first 64 bytes of a file that was given for a snapshot, less if it is shorter. If they belong to a file of that
	// original, it says so and what to do with the file at path; "": they do not.
	Original func(head []byte, path string) string
}

// Alias is the program under another program's name: with that one's flags, files and words in front of the same server.
type Alias struct {
	// Named reports whether the program was called by the name.
	Named func(argv []string) bool
	// Run is the program, and returns its exit status. args are without the name.
	Run func(all List, args, environ []string, stdout, stderr io.Writer) int
	// Command is the same as a subcommand, without a link of the name.
	Command func(all List) *cli.Command
}

// Settings are what one server is told of a door, as pointers to a struct: Options write into it. They are used by one goroutine.
type Settings interface {
	// Options are the door's flags in the order of --help. Exactly one has Door set.
	Options() []Option
	// Listens are the addresses among them.
	Listens() []Listen
	// Check refuses values that do not go together, in one line (cli.Usagef).
	Check() error
	// Service turns checked settings into what a server runs. The door may be off: its workers may be needed all the same, because
	// this member may lead others where it is on.
	Service(c *Common) (*Service, error)
}

// Yielding is Settings of a door that is on by default and need not be. If the operator has not named the address, and the port or --memory
// does not suffice, the door is off. One warning says why.
type Yielding interface {
	Settings
	// Unnamed tells that the address is the default, because the operator has named none.
	Unnamed()
	// Yield turns the door off.
	Yield()
}

// Option is one setting: a flag, an environment variable and a key of the config file under one name.
type Option struct {
	// Name has no dashes before it, Arg names the value in the help; "" for a flag without a value.
	Name, Arg string
	// Default is set where nothing is given; "": nothing is set.
	Default string
	Help    string
	// Door says that this is the door's address: where another door's is given and this is not, it is off.
	Door bool
	// List says that the flag may be given several times: Set gets all values with commas between.
	List bool
	// Set reads a value. Its error names the fault and, behind a semicolon, a valid form.
	Set func(value string) error
}

// Listen is one address of a door, and who could do what there if strangers reached it.
type Listen struct {
	Flag string // without dashes
	At   cli.Address
	// Public: it is meant for everybody, so it may be open to the network.
	Public bool
	// Risk is a stranger's possible harm at it, in words that follow "is beyond loopback and". It is refused there unless both sides show
	// certificates, or the operator trusts the network (--insecure). GuardedByTLS: a certificate of the server is enough, because the door
	// asks strangers for something else.
	Risk         string
	GuardedByTLS bool
	// Otherwise is what could be given instead of certificates, in words that follow those, or "".
	Otherwise string
	// Clients: the member list sends clients here.
	Clients bool
}

// Common is what all doors of a server share of its settings.
type Common struct {
	// Dir is the data directory.
	Dir string
	// Shares are those of --memory. A door's holders keep to theirs.
	Shares budget.Shares
	// Clients is the TLS of addresses for clients, Readers of those that everybody may read from; they return nil for cleartext. Each call
	// returns a configuration of its own.
	Clients, Readers func() *tls.Config
	// ClientCertificates: every client shows a certificate.
	ClientCertificates bool
	// ClientsPassForMembers is why a client could pass for a member, and what to do about it; "": none could.
	ClientsPassForMembers string
	// Origins are those of --cors.
	Origins []string
	Log     *slog.Logger
}

// Service is a door's running part in a server. The server calls the functions that are set in the order in which they stand here, from one
// goroutine.
type Service struct {
	// Places are what Open will bind. They are tried before anything is changed, so that a port in use refuses the start.
	Places []Place
	// Admin is the door's addition to the operator's port. Its functions are called after Work.
	Admin admin.Section
	// Prepare reads what may refuse the start. The data directory may not be changed yet, and Host.Node is nil.
	Prepare func(ctx context.Context, h *Host) error
	// Work starts the door's workers, with Host.Go. The node runs, but may have no leader.
	Work func(h *Host)
	// Open binds the places and serves them, with Host.Serve. The member is ready: an entry of its term is applied.
	Open func(h *Host) error
	// Shutdown lets requests finish until ctx ends, and cuts what is left then. It is called once or twice, also after a start that failed
	// before Open.
	Shutdown func(ctx context.Context) error
	// Close releases the rest, when the node has stopped and all work of Go and Serve has ended.
	Close func()
}

// Resume lets something go on that a restore, or a place that does not answer, has stopped. The function that made it has declared flags.
type Resume struct {
	// Asked reports whether the flags ask for it.
	Asked func() bool
	// Usage is what to write, for an error: "--tlog NAME --checkpoint FILE".
	Usage string
	// Run asks the server.
	Run func(c *cli.Call, a *cli.AdminClient) error
	// Held is the things that a restore holds, in words that follow "held are": "transparency logs".
	Held string
	// About are paragraphs for the help of `holdfast resume`, Examples its command lines.
	About    string
	Examples []string
}

// Import brings over what another program has that the door stands in for. The function that made it has declared flags.
type Import struct {
	// Asked reports whether the flags name a source.
	Asked func() bool
	// Run imports from it.
	Run func(c *cli.Call) error
}

// Saved reads the rows of one snapshot, in their order, for what people ask of it. It is used by one goroutine.
type Saved struct {
	// Row looks at one row of any machine; nil: none is looked at. An error means that the row is damaged.
	Row func(key, value []byte) error
	// Facts are the results from the rows.
	Facts func() []Fact
	// Flags declares flags of `snapshot restore`, Restored prints what it takes to go on with a directory made from the snapshot.
	Flags    func(l *cli.FlagList)
	Restored func(w io.Writer, data string)
}

// Fact is one thing that a snapshot says. The field of that name is in its JSON.
type Fact struct {
	Name  string
	Value any
	// Text is what people read beside the name; "": it is only in the JSON. Brief: it is also in the one line of a finished save.
	Text  string
	Brief bool
}
