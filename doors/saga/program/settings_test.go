package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/serve"
)

// set sets an option by its name.
func set(t *testing.T, all []serve.Option, name, v string) error {
	t.Helper()
	for _, o := range all {
		if o.Name == name {
			return o.Set(v)
		}
	}
	t.Fatalf("there is no --%s", name)
	return nil
}

// TestServeHasWhatTheNameDTMHas: intervals, time limits, the webhook and how often; and authorities of its own.
func TestServeHasWhatTheNameDTMHas(t *testing.T) {
	var s settings
	all := s.Options()
	for name, v := range map[string]string{"saga-retry-interval": "250ms", "saga-timeout-to-fail": "1m", "saga-request-timeout": "7s", "saga-retention": "36h", "saga-alert": "https://alerts.example/hook",
		"saga-alert-after": "5", "saga-ca": "/etc/ca.pem"} {
		if err := set(t, all, name, v); err != nil {
			t.Errorf("--%s %s: %v", name, v, err)
		}
	}
	if s.retryInterval != 250*time.Millisecond || s.timeoutToFail != time.Minute || s.requestTimeout != 7*time.Second || s.retention != 36*time.Hour || s.alert != "https://alerts.example/hook" || s.alertAfter != 5 ||
		s.ca != "/etc/ca.pem" {
		t.Errorf("%+v", s)
	}
	for name, v := range map[string]string{"saga-retry-interval": "1ms", "saga-timeout-to-fail": "soon", "saga-request-timeout": "-3s", "saga-retention": "100ms", "saga-alert": "alerts.example", "saga-alert-after": "0"} {
		if err := set(t, all, name, v); err == nil || !strings.Contains(err.Error(), "write for example") {
			t.Errorf("--%s %s: %v", name, v, err)
		}
	}
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{empty: "no certificate", empty + ".none": "give a file"} {
		if _, err := readAuthorities(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
