package conf

import (
	"errors"
	"io/fs"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"
)

// parse reads a start with file as the configuration file; "" for none.
func parse(args, environ []string, file string) (*Settings, error) {
	if file != "" {
		args = append([]string{"-c", "conf.yml"}, args...)
	}
	return Parse(args, environ, func(path string) ([]byte, error) {
		if path != "conf.yml" || file == "" {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return []byte(file), nil
	})
}

func TestWithoutAnythingTheDefaultsAreDTMs(t *testing.T) {
	got, err := parse(nil, nil, "")
	want := &Settings{HTTPPort: 36789, GRPCPort: 36790, TimeoutToFail: 35 * time.Second, RetryInterval: 10 * time.Second, RequestTimeout: 3 * time.Second, Retention: 24 * time.Hour,
		AlertRetryLimit: 3, LogOutputs: []string{"stderr"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTheFileGoesBeforeTheEnvironmentAndBothBeforeTheDefault(t *testing.T) {
	const file = `
# as conf.sample.yml, with some lines in use
HttpPort: 40001
RetryInterval: '12'
RequestTimeout:
Log:
   Outputs: 'stderr,/tmp/x.log'
Store:
   FinishedDataExpire: 3600
AlertWebHook: 'http://alerts.example/hook'
`
	environ := []string{"HTTP_PORT=40009", "GRPC_PORT=40002", "RETRY_INTERVAL=50", "TIMEOUT_TO_FAIL=60", "REQUEST_TIMEOUT=7", "LOG_LEVEL=warn",
		"ALERT_RETRY_LIMIT=", "ALERT_WEB_HOOK=http://other.example/", "PATH=/bin"}
	got, err := parse([]string{"-d"}, environ, file)
	want := &Settings{HTTPPort: 40001, GRPCPort: 40002, TimeoutToFail: time.Minute, RetryInterval: 12 * time.Second, RequestTimeout: 7 * time.Second, Retention: time.Hour,
		AlertWebHook: "http://alerts.example/hook", AlertRetryLimit: 3, LogLevel: slog.LevelDebug, LogOutputs: []string{"stderr", "/tmp/x.log"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestVariablesHaveDTMsNames compares with what DTM 1.19's own function makes of its settings.
func TestVariablesHaveDTMsNames(t *testing.T) {
	for name, want := range map[string]string{"HttpPort": "HTTP_PORT", "JsonRpcPort": "JSON_RPC_PORT", "Store.Driver": "STORE_DRIVER",
		"Store.MaxOpenConns": "STORE_MAX_OPEN_CONNS", "MicroService.EndPoint": "MICRO_SERVICE_END_POINT", "HttpMicroService.Driver": "HTTP_MICRO_SERVICE_DRIVER",
		"UpdateBranchSync": "UPDATE_BRANCH_SYNC", "Log.RotationConfigJSON": "LOG_ROTATION_CONFIG_JSON", "AlertWebHook": "ALERT_WEB_HOOK",
		"TimeoutToFail": "TIMEOUT_TO_FAIL"} {
		if got := envName(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
		if find(name) == nil {
			t.Errorf("there is no %s", name)
		}
	}
}

// TestTheStoreIsOneLine: the database that DTM would use is not asked for, however it was named, and its password is not printed.
func TestTheStoreIsOneLine(t *testing.T) {
	s, err := parse(nil, []string{"STORE_DRIVER=mysql", "STORE_PASSWORD=SECRET"}, "Store:\n  Host: db.example\n  Port: 3306\n  User: root\n  DataExpire: 5\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Warnings) != 1 || strings.Contains(s.Warnings[0], "SECRET") || strings.Contains(s.Warnings[0], "db.example") ||
		!strings.Contains(s.Warnings[0], "Store.Driver, Store.Host, Store.Port, Store.User, Store.Password, Store.DataExpire: not used") {
		t.Errorf("it says %q", s.Warnings)
	}
}

func TestWhatMeansNothingHereSaysSo(t *testing.T) {
	s, err := parse(nil, []string{"TRANS_CRON_INTERVAL=3"}, "JsonRpcPort: 36791\nMicroService:\n  Driver: default\n  Colour: red\nGrpcServiceConfig: x\nhttpport: 1\n")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(s.Warnings, "\n")
	for _, want := range []string{"TRANS_CRON_INTERVAL does nothing here: what is due", "conf.yml: JsonRpcPort does nothing here: JSON-RPC is served at the HTTP port",
		"conf.yml: there is no setting MicroService.Colour", "conf.yml: there is no setting GrpcServiceConfig", "conf.yml: there is no setting httpport"} {
		if !strings.Contains(all, want) {
			t.Errorf("it does not say %q:\n%s", want, all)
		}
	}
	if len(s.Warnings) != 5 || s.HTTPPort != 36789 {
		t.Errorf("port %d:\n%s", s.HTTPPort, all)
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, c := range []struct {
		environ []string
		file    string
		want    string
	}{
		{nil, "RetryInterval: 9", "config error: RetryInterval should not be less than 10"},
		{nil, "RetryInterval: 40", "config error: TimeoutToFail should not be less than RetryInterval"},
		{[]string{"TIMEOUT_TO_FAIL=soon"}, "", `TIMEOUT_TO_FAIL: "soon" is no number`},
		{nil, "RequestTimeout: 2.5", `conf.yml: RequestTimeout: "2.5" is no number`},
		{nil, "RequestTimeout: 0", "conf.yml: RequestTimeout: 0 is no time"},
		{nil, "Store:\n  FinishedDataExpire: 0", "conf.yml: Store.FinishedDataExpire: 0 is no time"},
		{nil, "RequestTimeout: 99999999999999999999", "is no number"},
		{nil, "HttpPort: 70000", "conf.yml: HttpPort: 70000 is no port"},
		{nil, "HttpPort: 5\nGrpcPort: 5", "both 5"},
		{nil, "HttpPort: [1, 2]", "conf.yml: HttpPort wants one value"},
		{nil, "LogLevel: loud", "there is no level loud"},
		{nil, "AlertRetryLimit: -1", "give a number of tries"},
		{[]string{"LOG_ROTATION_ENABLE=1"}, "", "LOG_ROTATION_ENABLE: 1 is not offered: leave it to logrotate"},
		{nil, "MicroService:\n  Driver: dtm-driver-gozero", "is not offered: this server makes itself known nowhere"},
		{nil, "a: b: c", "conf.yml: "},
		{nil, "- list", "conf.yml: "},
		{nil, "HttpPort: 1\nHttpPort: 2", "already defined"},
	} {
		if s, err := parse(nil, c.environ, c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %q: %+v, %v; want %q", c.environ, c.file, s, err, c.want)
		}
	}
	if _, err := parse([]string{"-c", "none"}, nil, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
	for _, args := range [][]string{{"serve"}, {"-x"}, {"-c"}, {"--config=x"}} {
		var usage *UsageError
		if _, err := parse(args, nil, ""); !errors.As(err, &usage) {
			t.Errorf("%q: %v", args, err)
		}
	}
	if _, err := parse([]string{"-h"}, nil, ""); !errors.Is(err, ErrHelp) {
		t.Errorf("-h: %v", err)
	}
	if s, err := parse([]string{"-v"}, []string{"RETRY_INTERVAL=1"}, ""); err != nil || !s.Version {
		t.Errorf("-v: %+v, %v", s, err)
	}
}
