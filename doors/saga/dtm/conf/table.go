package conf

import (
	"regexp"
	"strings"
)

// use is the effect of a setting of DTM's here.
type use int

const (
	// honoured: it means here what it means there.
	honoured use = iota
	// idle: there is nothing here that it could set, and ignoring it does no harm. One line in the log says so.
	idle
	// store: it is about the database that DTM keeps its transactions in. One line in the log says for all of them that there is none.
	store
	// refused: it asks for something this server does not do. The start fails with the reason.
	refused
)

// row is one setting. A default is DTM's, for settings that are honoured; for the others it is not needed.
type row struct {
	name   string // as in the file, with a dot between a section and its key
	number bool
	def    string
	use    use
	why    string // idle: what happens instead; refused: why, and the remedy
	// unless is a value of a refused setting that asks for what happens anyway, and is therefore taken.
	unless string
}

const (
	noDiscovery = "this server makes itself known nowhere; give its address to clients"
	noRotation  = "leave it to logrotate or to the journal"
)

// table is every setting of DTM 1.19.0, in the order of its own list.
var table = []row{
	{name: "Store.Driver", use: store},
	{name: "Store.Host", use: store},
	{name: "Store.Port", use: store},
	{name: "Store.User", use: store},
	{name: "Store.Password", use: store},
	{name: "Store.Db", use: store},
	{name: "Store.Schema", use: store},
	{name: "Store.MaxOpenConns", use: store},
	{name: "Store.MaxIdleConns", use: store},
	{name: "Store.ConnMaxLifeTime", use: store},
	{name: "Store.DataExpire", use: store},
	{name: "Store.FinishedDataExpire", number: true, def: "86400"},
	{name: "Store.RedisPrefix", use: store},
	{name: "TransCronInterval", number: true, use: idle, why: "what is due is gone on with at once"},
	{name: "TimeoutToFail", number: true, def: "35"},
	{name: "RetryInterval", number: true, def: "10"},
	{name: "RequestTimeout", number: true, def: "3"},
	{name: "HttpPort", number: true, def: "36789"},
	{name: "GrpcPort", number: true, def: "36790"},
	{name: "JsonRpcPort", number: true, use: idle, why: "JSON-RPC is served at the HTTP port, by DTM too"},
	{name: "MicroService.Driver", use: refused, unless: "default", why: noDiscovery},
	{name: "MicroService.Target", use: idle, why: noDiscovery},
	{name: "MicroService.EndPoint", use: idle, why: noDiscovery},
	{name: "HttpMicroService.Driver", use: refused, unless: "default", why: noDiscovery},
	{name: "HttpMicroService.RegistryType", use: idle, why: noDiscovery},
	{name: "HttpMicroService.RegistryAddress", use: idle, why: noDiscovery},
	{name: "HttpMicroService.RegistryOptions", use: idle, why: noDiscovery},
	{name: "HttpMicroService.Target", use: idle, why: noDiscovery},
	{name: "HttpMicroService.EndPoint", use: idle, why: noDiscovery},
	{name: "UpdateBranchSync", number: true, use: idle, why: "what a service answered is in the log before anything is decided by it"},
	{name: "UpdateBranchAsyncGoroutineNum", number: true, use: idle, why: "what a service answered is in the log before anything is decided by it"},
	{name: "LogLevel", def: "info"},
	{name: "Log.Outputs", def: "stderr"},
	{name: "Log.RotationEnable", number: true, use: refused, unless: "0", why: noRotation},
	{name: "Log.RotationConfigJSON", use: idle, why: noRotation},
	{name: "TimeZoneOffset", use: idle, why: "every time is told with its zone"},
	{name: "ConfigUpdateInterval", number: true, use: idle, why: "topics are read from the state with each message"},
	{name: "AlertRetryLimit", number: true, def: "3"},
	{name: "AlertWebHook"},
	{name: "AdminBasePath", use: idle, why: "no admin pages are served"},
}

// find returns the row of a setting, nil if DTM has none of that name.
func find(name string) *row {
	for i := range table {
		if table[i].name == name {
			return &table[i]
		}
	}
	return nil
}

var (
	lastCapital  = regexp.MustCompile("([A-Z])([A-Z][a-z])")
	firstCapital = regexp.MustCompile("([a-z])([A-Z]+)")
)

// envName is the environment variable of a setting, by DTM's rule: MicroService.EndPoint is MICRO_SERVICE_END_POINT.
func envName(name string) string {
	s := lastCapital.ReplaceAllString(strings.ReplaceAll(name, ".", "_"), "${1}_${2}")
	return strings.ToUpper(firstCapital.ReplaceAllString(s, "${1}_${2}"))
}
