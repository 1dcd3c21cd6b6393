package sql

import (
	"fmt"
	"strings"
	"testing"
)

// ordersTables are TPC-C's, as go-tpc makes them.
var ordersTables = []string{
	`CREATE TABLE warehouse (w_id INT NOT NULL, w_name VARCHAR(10), w_street_1 VARCHAR(20), w_street_2 VARCHAR(20), w_city VARCHAR(20), w_state CHAR(2), w_zip CHAR(9),
		w_tax DECIMAL(4, 4), w_ytd DECIMAL(12, 2), PRIMARY KEY (w_id))`,
	`CREATE TABLE district (d_id INT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10), d_street_1 VARCHAR(20), d_street_2 VARCHAR(20), d_city VARCHAR(20), d_state CHAR(2),
		d_zip CHAR(9), d_tax DECIMAL(4, 4), d_ytd DECIMAL(12, 2), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id))`,
	`CREATE TABLE customer (c_id INT NOT NULL, c_d_id INT NOT NULL, c_w_id INT NOT NULL, c_first VARCHAR(16), c_middle CHAR(2), c_last VARCHAR(16), c_street_1 VARCHAR(20),
		c_street_2 VARCHAR(20), c_city VARCHAR(20), c_state CHAR(2), c_zip CHAR(9), c_phone CHAR(16), c_since DATETIME, c_credit CHAR(2), c_credit_lim DECIMAL(12, 2),
		c_discount DECIMAL(4,4), c_balance DECIMAL(12,2), c_ytd_payment DECIMAL(12,2), c_payment_cnt INT, c_delivery_cnt INT, c_data VARCHAR(500),
		PRIMARY KEY(c_w_id, c_d_id, c_id), INDEX idx_customer (c_w_id, c_d_id, c_last, c_first))`,
	`CREATE TABLE history (h_c_id INT NOT NULL, h_c_d_id INT NOT NULL, h_c_w_id INT NOT NULL, h_d_id INT NOT NULL, h_w_id INT NOT NULL, h_date DATETIME, h_amount DECIMAL(6, 2),
		h_data VARCHAR(24), INDEX idx_h_w_id (h_w_id), INDEX idx_h_c_w_id (h_c_w_id))`,
	"CREATE TABLE new_order (no_o_id INT NOT NULL, no_d_id INT NOT NULL, no_w_id INT NOT NULL, PRIMARY KEY(no_w_id, no_d_id, no_o_id))",
	`CREATE TABLE orders (o_id INT NOT NULL, o_d_id INT NOT NULL, o_w_id INT NOT NULL, o_c_id INT, o_entry_d DATETIME, o_carrier_id INT, o_ol_cnt INT, o_all_local INT,
		PRIMARY KEY(o_w_id, o_d_id, o_id), INDEX idx_order (o_w_id, o_d_id, o_c_id, o_id))`,
	`CREATE TABLE order_line (ol_o_id INT NOT NULL, ol_d_id INT NOT NULL, ol_w_id INT NOT NULL, ol_number INT NOT NULL, ol_i_id INT NOT NULL, ol_supply_w_id INT,
		ol_delivery_d DATETIME, ol_quantity INT, ol_amount DECIMAL(6, 2), ol_dist_info CHAR(24), PRIMARY KEY(ol_w_id, ol_d_id, ol_o_id, ol_number))`,
	`CREATE TABLE stock (s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity INT, s_dist_01 CHAR(24), s_dist_02 CHAR(24), s_dist_03 CHAR(24), s_dist_04 CHAR(24),
		s_dist_05 CHAR(24), s_dist_06 CHAR(24), s_dist_07 CHAR(24), s_dist_08 CHAR(24), s_dist_09 CHAR(24), s_dist_10 CHAR(24), s_ytd INT, s_order_cnt INT,
		s_remote_cnt INT, s_data VARCHAR(50), PRIMARY KEY(s_w_id, s_i_id))`,
	"CREATE TABLE item (i_id INT NOT NULL, i_im_id INT, i_name VARCHAR(24), i_price DECIMAL(5, 2), i_data VARCHAR(50), PRIMARY KEY(i_id))",
}

// How many rows the tables have: few, because a benchmark loads them. A district has its customers, and as many orders.
const (
	benchDistricts = 10
	benchCustomers = 200
	benchItems     = 1000
	benchLines     = 10
)

// ordersRows are statements that fill the tables for one warehouse.
func ordersRows() (all []string) {
	fill := func(table string, rows []string) {
		for len(rows) > 0 {
			n := min(len(rows), 200)
			all = append(all, "INSERT INTO "+table+" VALUES "+strings.Join(rows[:n], ","))
			rows = rows[n:]
		}
	}
	fill("warehouse", []string{"(1, 'name', 'street', 'street', 'city', 'st', '123456789', 0.1, 300000)"})
	var districts, customers, orders, fresh, lines, stock, items []string
	for d := 1; d <= benchDistricts; d++ {
		districts = append(districts, fmt.Sprintf("(%d, 1, 'name', 'street', 'street', 'city', 'st', '123456789', 0.05, 30000, %d)", d, benchCustomers+1))
		for c := 1; c <= benchCustomers; c++ {
			customers = append(customers, fmt.Sprintf("(%d, %d, 1, 'first%d', 'OE', 'last%d', 'street', 'street', 'city', 'st', '123456789', '0123456789012345', '2024-01-02 03:04:05', 'GC', 50000, 0.25, -10, 10, 1, 0, '%s')",
				c, d, c, c%70, strings.Repeat("x", 400)))
			orders = append(orders, fmt.Sprintf("(%d, %d, 1, %d, '2024-01-02 03:04:05', 5, %d, 1)", c, d, c, benchLines))
			if c > benchCustomers*7/10 {
				fresh = append(fresh, fmt.Sprintf("(%d, %d, 1)", c, d))
			}
			for n := 1; n <= benchLines; n++ {
				lines = append(lines, fmt.Sprintf("(%d, %d, 1, %d, %d, 1, '2024-01-02 03:04:05', 5, 12.34, 'abcdefghijklmnopqrstuvwx')", c, d, n, (c*n)%benchItems+1))
			}
		}
	}
	for i := 1; i <= benchItems; i++ {
		dist := strings.Repeat("'abcdefghijklmnopqrstuvwx', ", 10)
		stock = append(stock, fmt.Sprintf("(%d, 1, 50, %s 0, 0, 0, 'some data of an item in stock')", i, dist))
		items = append(items, fmt.Sprintf("(%d, 7, 'name of item %d', %d.25, 'some data of an item')", i, i, i%90+1))
	}
	fill("district", districts)
	fill("customer", customers)
	fill("orders", orders)
	fill("new_order", fresh)
	fill("order_line", lines)
	fill("stock", stock)
	fill("item", items)
	return all
}

// list is n times one tuple of parameters.
func list(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }

// ordersStatement is a statement of TPC-C, how often a hundred of its transactions run it, and its parameters for the nth time.
type ordersStatement struct {
	name, text string
	times      float64
	args       func(n int) []any
}

// ordersStatements are those of go-tpc: 45 new orders, 43 payments and 4 of each of the others in a hundred transactions, with ten items in an order.
func ordersStatements() []ordersStatement {
	d := func(n int) int64 { return int64(n%benchDistricts + 1) }
	c := func(n int) int64 { return int64(n*37%benchCustomers + 1) }
	item := func(n int) int64 { return int64(n*131%benchItems + 1) }
	one := int64(1)
	byDistrict := func(values ...any) func(n int) []any {
		return func(n int) []any {
			all := append([]any{}, values...)
			for i := int64(1); i <= benchDistricts; i++ {
				all = append(all, one, i, c(n))
			}
			return all
		}
	}
	tens := list(benchDistricts, "(?,?,?)")
	return []ordersStatement{
		{"new order: customer and warehouse", "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = ? AND c_w_id = w_id AND c_d_id = ? AND c_id = ?", 45,
			func(n int) []any { return []any{one, d(n), c(n)} }},
		{"new order: district", "SELECT d_next_o_id, d_tax FROM district WHERE d_id = ? AND d_w_id = ? FOR UPDATE", 45, func(n int) []any { return []any{d(n), one} }},
		{"new order: next of district", "UPDATE district SET d_next_o_id = ? + 1 WHERE d_id = ? AND d_w_id = ?", 45, func(n int) []any { return []any{int64(n), d(n), one} }},
		{"new order: insert order", "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (?, ?, ?, ?, ?, ?, ?)", 45,
			func(n int) []any {
				return []any{int64(n + 10000), int64(99), one, c(n), "2024-02-03 04:05:06", int64(10), one}
			}},
		{"new order: insert new_order", "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)", 45, func(n int) []any { return []any{int64(n + 10000), int64(99), one} }},
		{"new order: items", "SELECT i_price, i_name, i_data, i_id FROM item WHERE i_id IN (" + list(10, "?") + ")", 45, func(n int) (all []any) {
			for i := range 10 {
				all = append(all, item(n*10+i))
			}
			return all
		}},
		{"new order: stock", "SELECT s_i_id, s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10 FROM stock WHERE (s_w_id, s_i_id) IN (" +
			list(10, "(?,?)") + ") FOR UPDATE", 45, func(n int) (all []any) {
			for i := range 10 {
				all = append(all, one, item(n*10+i))
			}
			return all
		}},
		{"new order: update stock", "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + ? WHERE s_i_id = ? AND s_w_id = ?", 450,
			func(n int) []any { return []any{int64(n%90 + 10), int64(5), int64(0), item(n), one} }},
		{"new order: insert lines", "INSERT into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) VALUES " +
			list(10, "(?,?,?,?,?,?,?,?,?)"), 45, func(n int) (all []any) {
			for i := range int64(10) {
				all = append(all, int64(n+10000), int64(99), one, i, item(n+int(i)), one, int64(5), 12.345678+float64(n%100), "abcdefghijklmnopqrstuvwx")
			}
			return all
		}},
		{"payment: update district", "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?", 43, func(n int) []any { return []any{float64(n%5000) / 100, one, d(n)} }},
		{"payment: district", "SELECT d_street_1, d_street_2, d_city, d_state, d_zip, d_name FROM district WHERE d_w_id = ? AND d_id = ?", 43,
			func(n int) []any { return []any{one, d(n)} }},
		{"payment: update warehouse", "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", 43, func(n int) []any { return []any{float64(n%5000) / 100, one} }},
		{"payment: warehouse", "SELECT w_street_1, w_street_2, w_city, w_state, w_zip, w_name FROM warehouse WHERE w_id = ?", 43, func(n int) []any { return []any{one} }},
		{"payment: customers by name", "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first", 26,
			func(n int) []any { return []any{one, d(n), fmt.Sprint("last", n%70)} }},
		{"payment: customer", `SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit, c_credit_lim, c_discount, c_balance, c_since
			FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE`, 43, func(n int) []any { return []any{one, d(n), c(n)} }},
		{"payment: update customer", "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", 39,
			func(n int) []any { return []any{float64(n%500) / 100, float64(n%500) / 100, one, d(n), c(n)} }},
		{"payment: data of customer", "SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", 4, func(n int) []any { return []any{one, d(n), c(n)} }},
		{"payment: insert history", "INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", 43,
			func(n int) []any {
				return []any{d(n), one, c(n), d(n), one, "2024-02-03 04:05:06", float64(n%5000) / 100, "name    name"}
			}},
		{"order status: count by name", "SELECT count(c_id) namecnt FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ?", 2.4,
			func(n int) []any { return []any{one, d(n), fmt.Sprint("last", n%70)} }},
		{"order status: by name", "SELECT c_balance, c_first, c_middle, c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first", 2.4,
			func(n int) []any { return []any{one, d(n), fmt.Sprint("last", n%70)} }},
		{"order status: latest order", "SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1", 4,
			func(n int) []any { return []any{one, d(n), c(n)} }},
		{"order status: lines", "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?", 4,
			func(n int) []any { return []any{one, d(n), c(n)} }},
		{"delivery: oldest order", "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id ASC LIMIT 1 FOR UPDATE", 40,
			func(n int) []any { return []any{one, d(n)} }},
		{"delivery: delete", "DELETE FROM new_order WHERE (no_w_id, no_d_id, no_o_id) IN (" + tens + ")", 4, byDistrict()},
		{"delivery: carrier", "UPDATE orders SET o_carrier_id = ? WHERE (o_w_id, o_d_id, o_id) IN (" + tens + ")", 4, byDistrict(int64(3))},
		{"delivery: orders", "SELECT o_d_id, o_c_id FROM orders WHERE (o_w_id, o_d_id, o_id) IN (" + tens + ")", 4, byDistrict()},
		{"delivery: lines", "UPDATE order_line SET ol_delivery_d = ? WHERE (ol_w_id, ol_d_id, ol_o_id) IN (" + tens + ")", 4, byDistrict("2024-05-06 07:08:09")},
		{"delivery: amounts", "SELECT ol_d_id, SUM(ol_amount) FROM order_line WHERE (ol_w_id, ol_d_id, ol_o_id) IN (" + tens + ") GROUP BY ol_d_id", 4, byDistrict()},
		{"delivery: update customer", "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", 40,
			func(n int) []any { return []any{float64(n%500) / 100, one, d(n), c(n)} }},
		{"stock level: district", "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?", 4, func(n int) []any { return []any{one, d(n)} }},
		{"stock level: count", `SELECT /*+ TIDB_INLJ(order_line,stock) */ COUNT(DISTINCT (s_i_id)) stock_count FROM order_line, stock WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id < ?
			AND ol_o_id >= ? - 20 AND s_w_id = ? AND s_i_id = ol_i_id AND s_quantity < ?`, 4, func(n int) []any { return []any{one, d(n), int64(150), int64(150), one, int64(15)} }},
	}
}

// perTransaction is how many statements of BenchmarkOrders are committed together: about as many as TPC-C's mix has in a transaction.
const perTransaction = 20

// BenchmarkOrders measures the CPU that the statements of TPC-C cost in the door. cpu-µs/tx is what a transaction of the mix spends on the statement.
func BenchmarkOrders(b *testing.B) {
	for _, by := range []string{"executor", "planner"} {
		r := newRig(b)
		d := r.another(func(o *Options) { o.NoExecutor = by == "planner" })
		c := r.connectTo(d, "test")
		for _, text := range append(append([]string{}, ordersTables...), ordersRows()...) {
			r.exec(c, text)
		}
		nth := 0 // over all runs: orders are inserted once
		for _, s := range ordersStatements() {
			b.Run(by+"/"+strings.ReplaceAll(s.name, ": ", "/"), func(b *testing.B) {
				f := newFeed(b, d)
				id := f.prepare(b, s.text)
				begin, commit := f.prepare(b, "BEGIN"), f.prepare(b, "COMMIT")
				f.next = func(n int) []byte {
					switch n % (perTransaction + 2) {
					case 0:
						return benchExecute(begin, nil)
					case perTransaction + 1:
						return benchExecute(commit, nil)
					}
					nth++
					return benchExecute(id, s.args(nth))
				}
				from := d.d.engine.Directed()
				f.run(perTransaction + 2) // the plan is made
				before := spentSoFar()
				b.ReportAllocs()
				b.ResetTimer()
				f.run(b.N)
				spent := float64(spentSoFar()-before) / 1e3 / float64(b.N)
				b.ReportMetric(spent, "cpu-µs/op")
				b.ReportMetric(spent*s.times/100, "cpu-µs/tx")
				b.ReportMetric(float64(d.d.engine.Directed()-from)/float64(b.N+perTransaction+2), "direct")
			})
		}
	}
}
