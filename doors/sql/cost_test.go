package sql

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/doors/sql/wire"
)

// BenchmarkStatements measures the CPU that a prepared statement costs in the door, without a network: by the executor, and by kept plans. The statements are those
// of sysbench's workloads. cpu-µs/op counts the whole process, garbage collection too; the store is in memory and applies at once.
func BenchmarkStatements(b *testing.B) {
	for _, by := range []string{"executor", "planner"} {
		r := newRig(b)
		d := r.another(func(o *Options) { o.NoExecutor = by == "planner" })
		c := r.connectTo(d, "test")
		r.exec(c, "CREATE TABLE sb (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT '0', c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k_1 (k))")
		const rows = 2000
		for from := 0; from < rows; from += 500 {
			var all []string
			for id := from + 1; id <= from+500; id++ {
				all = append(all, fmt.Sprintf("(%d, %d, '%s', '%s')", id, id, benchText(id, 10), benchText(id, 5)))
			}
			r.exec(c, "INSERT INTO sb VALUES "+strings.Join(all, ","))
		}
		for _, s := range []struct {
			name, text string
			args       func(n int) []any
		}{
			{"begin and commit", "BEGIN", nil},
			{"point", "SELECT c FROM sb WHERE id=?", func(n int) []any { return []any{int32(n%rows + 1)} }},
			{"range", "SELECT c FROM sb WHERE id BETWEEN ? AND ?", benchRange},
			{"sum", "SELECT SUM(k) FROM sb WHERE id BETWEEN ? AND ?", benchRange},
			{"order", "SELECT c FROM sb WHERE id BETWEEN ? AND ? ORDER BY c", benchRange},
			{"distinct", "SELECT DISTINCT c FROM sb WHERE id BETWEEN ? AND ? ORDER BY c", benchRange},
			{"update k", "UPDATE sb SET k=k+1 WHERE id=?", func(n int) []any { return []any{int32(n%rows + 1)} }},
			{"update c", "UPDATE sb SET c=? WHERE id=?", func(n int) []any { return []any{benchText(n+7, 10), int32(n%rows + 1)} }},
			{"insert and delete", "INSERT INTO sb (id, k, c, pad) VALUES (?, ?, ?, ?)", func(n int) []any {
				return []any{int32(n + 1_000_000), int32(n), benchText(n, 10), benchText(n, 5)}
			}},
		} {
			b.Run(by+"/"+s.name, func(b *testing.B) {
				f := newFeed(b, d)
				id := f.prepare(b, s.text)
				second := uint32(0)
				switch s.name {
				case "begin and commit":
					second = f.prepare(b, "COMMIT")
				case "insert and delete":
					second = f.prepare(b, "DELETE FROM sb WHERE id=?")
				}
				f.next = func(n int) []byte {
					switch {
					case second == 0:
						return benchExecute(id, s.args(n))
					case s.args == nil && n%2 == 1:
						return benchExecute(second, nil)
					case s.args == nil:
						return benchExecute(id, nil)
					case n%2 == 1:
						return benchExecute(second, s.args(n - 1)[:1])
					}
					return benchExecute(id, s.args(n))
				}
				before := spentSoFar()
				b.ReportAllocs()
				b.ResetTimer()
				f.run(b.N)
				b.ReportMetric(float64(spentSoFar()-before)/1e3/float64(b.N), "cpu-µs/op")
			})
		}
	}
}

func benchRange(n int) []any { return []any{int32(n%1900 + 1), int32(n%1900 + 100)} }

func benchText(n, groups int) string {
	all := make([]string, groups)
	for i := range all {
		all[i] = fmt.Sprintf("%011d", uint64(n*7919+i*104729)*2654435761%99999999999)
	}
	return strings.Join(all, "-")[:min(12*groups-1, 119)]
}

func spentSoFar() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchExecute(id uint32, args []any) []byte {
	b := append(binary.LittleEndian.AppendUint32([]byte{0, 0, 0, 0, 23}, id), 0, 1, 0, 0, 0)
	if len(args) > 0 {
		b = append(b, make([]byte, (len(args)+7)/8)...)
		b = append(b, 1)
		var values []byte
		for _, a := range args {
			switch v := a.(type) {
			case int32:
				b = append(b, byte(wire.Long), 0)
				values = binary.LittleEndian.AppendUint32(values, uint32(v))
			case int64:
				b = append(b, byte(wire.LongLong), 0)
				values = binary.LittleEndian.AppendUint64(values, uint64(v))
			case float64:
				b = append(b, byte(wire.Double), 0)
				values = binary.LittleEndian.AppendUint64(values, math.Float64bits(v))
			case string:
				b = append(b, byte(wire.String), 0)
				values = append(append(values, byte(len(v))), v...)
			}
		}
		b = append(b, values...)
	}
	n := len(b) - 4
	b[0], b[1], b[2] = byte(n), byte(n>>8), byte(n>>16)
	return b
}

// feed is the server's side of a connection that gives it commands without end and takes its answers.
type feed struct {
	net.Conn // to the client that logs in and prepares
	client   *packets
	next     func(n int) []byte
	n        int
	rest     []byte
	left     atomic.Int64
	done     chan struct{}
}

func newFeed(b *testing.B, d served) *feed {
	client, server := net.Pipe()
	f := &feed{Conn: server, done: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		d.d.Serve(ctx, f)
		close(served)
	}()
	b.Cleanup(func() {
		cancel()
		_ = client.Close()
		<-served
	})
	f.client = &packets{client}
	f.client.login(b, "root", 0)
	f.client.command(b, append([]byte{3}, "USE test"...), false)
	return f
}

func (f *feed) prepare(b *testing.B, text string) uint32 {
	return binary.LittleEndian.Uint32(f.client.command(b, append([]byte{22}, text...), true)[5:])
}

// run has the server run n commands.
func (f *feed) run(n int) {
	f.n = 0
	f.left.Store(int64(n))
	_, _ = f.client.nc.Write([]byte{1, 0, 0, 0, 14}) // a ping, whose answer is dropped with the others
	<-f.done
}

func (f *feed) Read(b []byte) (int, error) {
	if len(f.rest) == 0 {
		switch left := f.left.Load(); {
		case left == 0:
			return f.Conn.Read(b)
		case left == 1:
			defer func() { f.done <- struct{}{} }()
			f.left.Store(0)
		default:
			f.left.Store(left - 1)
		}
		f.rest = f.next(f.n)
		f.n++
	}
	n := copy(b, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func (f *feed) Write(b []byte) (int, error) {
	if f.n > 0 || f.left.Load() > 0 {
		return len(b), nil
	}
	return f.Conn.Write(b)
}

// RemoteAddr is one from which the user without a password may come.
func (f *feed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
