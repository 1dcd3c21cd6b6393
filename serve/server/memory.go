package server

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/holdfastdb/holdfast/internal/budget"
	"github.com/holdfastdb/holdfast/internal/ram"
	"github.com/holdfastdb/holdfast/serve/admin"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// Memory is the bound of the whole process, in bytes, and its reason, in words for people.
type Memory struct {
	Bytes int64
	Why   string
}

// readLimit says how much memory there is; a test has its own.
var readLimit = ram.Read

// defaultMemory is that of a server that was told none.
func defaultMemory() Memory {
	there := readLimit()
	m := Memory{Bytes: budget.DefaultOf(there.Bytes)}
	switch quarter := there.Bytes / 4; {
	case there.Bytes == 0:
		m.Why = "the default where the kernel does not say how much there is"
	case quarter < budget.Small:
		m.Why = fmt.Sprintf("the least default; a quarter of %s %s is less", there.Of, cli.SizeString(there.Bytes))
	case quarter >= budget.Large:
		m.Why = fmt.Sprintf("the largest default; a quarter of %s %s is no less", there.Of, cli.SizeString(there.Bytes))
	default:
		m.Why = fmt.Sprintf("a quarter of %s %s", there.Of, cli.SizeString(there.Bytes))
	}
	return m
}

// MemoryOf reads HOLDFAST_MEMORY for a program that has no flag of that name; "": the default.
func MemoryOf(value string) (Memory, error) {
	if value == "" {
		return defaultMemory(), nil
	}
	m := Memory{Why: "given"}
	if err := cli.SetSize(&m.Bytes, value); err != nil {
		return m, fmt.Errorf("HOLDFAST_MEMORY %s: %w", value, err)
	}
	return m, nil
}

// memoryStatus is "memory" in the answer of GET /v1/status. All numbers are bytes.
type memoryStatus struct {
	Total int64  `json:"total_bytes"`
	Why   string `json:"why"`
	// Resident is the process as the kernel counts it, Go's limit what the runtime may have of the total.
	Resident int64         `json:"resident_bytes"`
	GoLimit  int64         `json:"go_limit_bytes"`
	Lent     int64         `json:"lent_bytes"`
	Claims   []claimStatus `json:"claims"`
}

// claimStatus is one claim: its given share, its present bound while caches lend and others borrow, and the bytes it holds.
type claimStatus struct {
	Claim string `json:"claim"`
	Kind  string `json:"kind"`
	Share int64  `json:"share_bytes"`
	May   int64  `json:"may_bytes"`
	Held  *int64 `json:"held_bytes,omitempty"` // nil: not counted
}

var kindNames = map[budget.Kind]string{budget.Passing: "passing", budget.Cache: "cache", budget.Kept: "kept", budget.Open: "open"}

func (s *Server) memoryNow() memoryStatus {
	shares := s.setup.Node.Shares
	st := memoryStatus{Total: shares.Total, Why: s.setup.MemoryWhy, Resident: resident(), GoLimit: shares.GoLimit}
	entries, lent := shares.Ledger.Entries()
	st.Lent = lent
	for _, e := range entries {
		c := claimStatus{Claim: e.Claim, Kind: kindNames[e.Kind], Share: e.Share, May: e.May}
		if e.Held >= 0 {
			c.Held = &e.Held
		}
		st.Claims = append(st.Claims, c)
	}
	return st
}

// resident is VmRSS of this process, 0 where the kernel does not say.
func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64) // 0: not said
	return pages * int64(os.Getpagesize())
}

var (
	descMemory   = admin.NewDesc("memory_bytes", "What the whole process may take (--memory).")
	descResident = admin.NewDesc("memory_resident_bytes", "What the process takes as the kernel counts it.")
	descLent     = admin.NewDesc("memory_lent_bytes", "What caches, locks and running transactions do without because leases, users, logs and open calls hold more than their shares.")
	descMay      = admin.NewDesc("memory_claim_bytes", "What the holder of a claim may have at the moment.", "claim")
	descHeld     = admin.NewDesc("memory_held_bytes", "What the holder of a claim holds, of those that are counted.", "claim")
)

// memorySection is what --memory adds to the operator's port.
func (s *Server) memorySection() admin.Section {
	return admin.Section{
		Status: func(context.Context) []admin.Field {
			return []admin.Field{{Name: "memory", Value: s.memoryNow()}}
		},
		Collect: func(m *admin.Metrics) {
			st := s.memoryNow()
			m.Gauge(descMemory, float64(st.Total))
			m.Gauge(descResident, float64(st.Resident))
			m.Gauge(descLent, float64(st.Lent))
			for _, c := range st.Claims {
				m.Gauge(descMay, float64(c.May), c.Claim)
				if c.Held != nil {
					m.Gauge(descHeld, float64(*c.Held), c.Claim)
				}
			}
		},
	}
}
