package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfastdb/holdfast/internal/wait"
)

// TestStatusHasAlarmsLogsDiskAndCertificates: what an operator's own program would have to ask elsewhere for.
func TestStatusHasAlarmsLogsDiskAndCertificates(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, "server", 2)
	out := &said{}
	r := serveLogging(t, out, t.TempDir(), "--tlog", freeAddr(t), "--tlog-origin", "log.example/2026", "--tls-cert", cert, "--tls-key", key)
	out.line(t, "this is Holdfast", "doors=kv,tlog", "memory=")
	client := r.client(t, a.client(t, "", ""))
	if _, err := pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(timely(t), &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE,
		Alarm: pb.AlarmType_NOSPACE, MemberID: 0xab}); err != nil {
		t.Fatal(err)
	}
	var s struct {
		Alarms []struct{ Alarm, Member string }
		Logs   []struct{ Name, Origin string }
		Disk   struct {
			Bytes uint64
			Free  uint64 `json:"free_bytes"`
		}
		Certificates []struct {
			File     string
			NotAfter time.Time `json:"not_after"`
		}
	}
	var body string
	for deadline := time.Now().Add(wait.Limit(t)); len(s.Logs) == 0 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		body = says(t, "status", "--json", "--admin", r.adminAddr) // the leader begins the log default by itself
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Alarms) != 1 || s.Alarms[0].Alarm != "NOSPACE" || s.Alarms[0].Member != "ab" || len(s.Logs) != 1 || s.Logs[0].Origin != "log.example/2026" ||
		s.Disk.Bytes == 0 || s.Disk.Free == 0 || len(s.Certificates) != 1 || s.Certificates[0].File != cert || time.Until(s.Certificates[0].NotAfter) < 0 {
		t.Error(body)
	}
	if text := says(t, "status", "--admin", r.adminAddr); !strings.Contains(text, "alarm NOSPACE of member ab") ||
		!strings.Contains(text, " free at "+r.data) {
		t.Error(text)
	}
	res, err := http.Get("http://" + r.adminAddr + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || !json.Valid(b) {
		t.Errorf("%v: %s", err, b)
	}
}
