package sql

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// TestNoOrphans: sessions that make and delete parents and children at a time leave no child without a parent, whatever their foreign keys do.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connect("test")
	r.exec(c, "CREATE TABLE p (id INT PRIMARY KEY, code INT, UNIQUE KEY (code))")
	for _, of := range []string{"RESTRICT", "CASCADE", "SET NULL"} {
		r.exec(c, fmt.Sprintf("CREATE TABLE c_%c (id INT PRIMARY KEY AUTO_INCREMENT, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE %s ON UPDATE %s)", of[0], of, of))
	}
	r.exec(c, "CREATE TABLE c_code (id INT PRIMARY KEY AUTO_INCREMENT, p INT, FOREIGN KEY (p) REFERENCES p (code) ON DELETE CASCADE)")
	children := []string{"c_R", "c_C", "c_S", "c_code"}
	var done [4]atomic.Int64 // statements by what they came to: done, 1451, 1452, 1213
	var wg sync.WaitGroup
	for i := range 4 {
		s := r.connect("test")
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for range 150 {
				n := r.IntN(4)
				text := fmt.Sprintf("INSERT INTO %s (p) VALUES (%d)", children[r.IntN(len(children))], n)
				switch r.IntN(6) {
				case 0:
					text = fmt.Sprintf("DELETE FROM p WHERE id = %d", n)
				case 1:
					text = fmt.Sprintf("INSERT IGNORE INTO p VALUES (%d, %d)", n, n)
				case 2:
					text = fmt.Sprintf("UPDATE p SET id = %d WHERE id = %d", r.IntN(4), n)
				case 3:
					text = fmt.Sprintf("DELETE FROM %s WHERE p = %d", children[r.IntN(len(children))], n)
				case 4:
					text = []string{"BEGIN", "COMMIT", "ROLLBACK"}[r.IntN(3)]
				}
				_, err := s.ExecContext(context.Background(), text)
				switch number(err) {
				case 0:
					if err != nil {
						t.Error(err)
						return
					}
					done[0].Add(1)
				case 1451:
					done[1].Add(1)
				case 1452:
					done[2].Add(1)
				case 1213:
					done[3].Add(1)
				case 1062:
				default:
					t.Errorf("%s: %v", text, err)
				}
			}
			if _, err := s.ExecContext(context.Background(), "COMMIT"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, child := range children {
		column := "id"
		if child == "c_code" {
			column = "code"
		}
		got, err := query(c, fmt.Sprintf("SELECT x.id, x.p FROM %s x LEFT JOIN p ON p.%s = x.p WHERE x.p IS NOT NULL AND p.id IS NULL", child, column))
		if got != "" || err != nil {
			t.Errorf("%s has orphans: %q %v", child, got, err)
		}
	}
	if got, err := query(c, "CHECK TABLE p, c_R, c_C, c_S, c_code"); err != nil || got != "test.p|check|status|OK\ntest.c_r|check|status|OK\ntest.c_c|check|status|OK\ntest.c_s|check|status|OK\ntest.c_code|check|status|OK\n" {
		t.Errorf("%q %v", got, err)
	}
	t.Logf("%d statements were done; 1451: %d, 1452: %d, 1213: %d", done[0].Load(), done[1].Load(), done[2].Load(), done[3].Load())
	for i := range 3 {
		if done[i].Load() == 0 {
			t.Error("that tested nothing")
		}
	}
}
