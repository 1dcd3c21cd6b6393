package sql

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
)

// workload are the statements that sysbench's oltp_read_write prepares for one table.
func workload(table string) []string {
	return []string{
		"SELECT c FROM " + table + " WHERE id=?",
		"SELECT c FROM " + table + " WHERE id BETWEEN ? AND ?",
		"SELECT SUM(k) FROM " + table + " WHERE id BETWEEN ? AND ?",
		"SELECT c FROM " + table + " WHERE id BETWEEN ? AND ? ORDER BY c",
		"SELECT DISTINCT c FROM " + table + " WHERE id BETWEEN ? AND ? ORDER BY c",
		"UPDATE " + table + " SET k=k+1 WHERE id=?",
		"UPDATE " + table + " SET c=? WHERE id=?",
		"DELETE FROM " + table + " WHERE id=?",
		"INSERT INTO " + table + " (id, k, c, pad) VALUES (?, ?, ?, ?)",
	}
}

// heldBytes is what the process holds behind a collection: the heap and the stacks.
func heldBytes() (heap, stacks int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse)
}

// TestIdleSessions: 3,000 sessions with 90 prepared statements each fit into 400 MB. Half of that is left to what waits for a collection, and some to buffers.
func TestIdleSessions(t *testing.T) {
	const sessions, most = 200, 45 << 10
	r := newRig(t)
	c := r.connect("test")
	var texts []string
	for i := range 10 {
		table := fmt.Sprintf("sbtest%d", i+1)
		r.exec(c, "CREATE TABLE "+table+" (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT '0', c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id), KEY k_1 (k))")
		texts = append(texts, workload(table)...)
	}
	open := func() {
		p := dialPackets(t, r.addr, 0)
		p.command(t, append([]byte{3}, "USE test"...), false)
		for i, text := range texts {
			id := binary.LittleEndian.Uint32(p.command(t, append([]byte{22}, text...), true)[5:])
			var args []any
			switch i % 9 {
			case 0, 5, 7:
				args = []any{int32(1)}
			case 6:
				args = []any{"c", int32(1)}
			case 8:
				args = []any{int32(1), int32(1), "c", "pad"}
			default:
				args = []any{int32(1), int32(100)}
			}
			answer := p.command(t, benchExecute(id, args)[4:], false)
			if answer[4] == 0xff {
				t.Fatalf("%s: %q", text, answer)
			}
		}
	}
	for range 3 {
		open()
	}
	heap, stacks := heldBytes()
	for range sessions {
		open()
	}
	heapAfter, stacksAfter := heldBytes()
	each := (heapAfter - heap + stacksAfter - stacks) / sessions
	t.Logf("%d bytes a session, %d of them of stacks", each, (stacksAfter-stacks)/sessions)
	if each > most {
		t.Errorf("a session with %d prepared statements holds %d bytes, %d are allowed", len(texts), each, most)
	}
}
