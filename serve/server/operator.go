package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/holdfastdb/holdfast/serve/admin"
	"github.com/holdfastdb/holdfast/serve/cli"
)

// notify tells systemd that the start is over, or the service, as etcd does: units of Type=notify would wait for ever. Without a
// socket, which NOTIFY_SOCKET names, it does nothing.
func notify(socket, state string, log *slog.Logger) {
	if socket == "" {
		return
	}
	if path, ok := strings.CutPrefix(socket, "@"); ok {
		socket = "\x00" + path
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err == nil {
		_, err = c.Write([]byte(state))
		c.Close()
	}
	if err != nil {
		log.Warn("systemd was not told", "state", state, "err", err)
	}
}

// Reload reads the certificates and the authorities again, as SIGHUP asks for, also where the files look as they did. It may be called from any goroutine
// once the setup is complete.
func (su *Setup) Reload(log *slog.Logger) {
	for _, c := range su.Certificates {
		c.reload()
	}
	for _, a := range su.Authorities {
		a.reload()
	}
	su.warnOfCertificates(log, time.Now())
}

// unknownVariables lists environment variables that look like settings and are none: the operator expects an effect.
func (c *Config) unknownVariables(environ []string) (unknown []string) {
	known := map[string]bool{"HOLDFAST_GOMAXPROCS": true, "HOLDFAST_TOKEN": true, "HOLDFAST_BIN": true} // the last one is of tests
	for _, o := range c.options() {
		known[cli.EnvName(o.Name)] = true
	}
	for _, d := range c.doors {
		for _, name := range d.door.Variables {
			known[name] = true
		}
	}
	for _, line := range environ {
		name, _, _ := strings.Cut(line, "=")
		if strings.HasPrefix(name, "HOLDFAST_") && !strings.HasPrefix(name, "HOLDFAST_TEST_") && !known[name] {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// began logs one line with the build, the member and its doors.
func (s *Server) began() {
	cluster, member := s.node.IDs()
	var on []string
	for i, d := range s.setup.Services {
		if len(d.Places) > 0 {
			on = append(on, s.setup.Doors[i].Name)
		}
	}
	s.log.Info("this is Holdfast "+cli.Version+cli.Revision(), "data", s.setup.Node.Dir, "cluster", fmt.Sprintf("%x", cluster),
		"member", fmt.Sprintf("%x", member), "name", s.node.Status().Name, "doors", strings.Join(on, ","), "memory", cli.SizeString(s.setup.Node.MemoryBytes), "why", s.setup.MemoryWhy)
}

// section is the server's own part of the operator's port.
func (s *Server) section() admin.Section {
	return admin.Section{
		Status: func(context.Context) (fields []admin.Field) {
			if all := s.setup.certificateStatus(time.Now()); all != nil {
				fields = append(fields, admin.Field{Name: "certificates", Value: all})
			}
			return fields
		},
		Notes:   func(context.Context) []string { return s.setup.certificateNotes(time.Now()) },
		Collect: s.setup.collectCertificates,
	}
}
