package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// largest sends the largest statement that the server says it takes, and a larger one.
func (s *suite) largest() (string, error) {
	ctx := context.Background()
	db, err := open(s.node(), "", "maxAllowedPacket=1073741824") // the driver's own bound
	if err != nil {
		return "", err
	}
	defer db.Close()
	var most int
	if err := db.QueryRowContext(ctx, "SELECT @@max_allowed_packet").Scan(&most); err != nil {
		return "", err
	}
	const around = len("SELECT LENGTH('')") + 1 // the first byte is the command
	var length int
	if err := db.QueryRowContext(ctx, "SELECT LENGTH('"+strings.Repeat("x", most-around)+"')").Scan(&length); err != nil {
		return "", fmt.Errorf("a statement of %d bytes, which @@max_allowed_packet allows: %w", most, err)
	}
	if length != most-around {
		return "", fmt.Errorf("%d bytes of text arrived as %d", most-around, length)
	}
	// The server reads only the head of a refused message, so a client that goes on sending may find the connection closed.
	var told *mysql.MySQLError
	err = db.QueryRowContext(ctx, "SELECT LENGTH('"+strings.Repeat("x", most-around+1)+"')").Scan(&length)
	switch {
	case err == nil:
		return "", fmt.Errorf("a statement of %d bytes is taken, and @@max_allowed_packet is %d", most+1, most)
	case errors.As(err, &told) && told.Number != 1153:
		return "", fmt.Errorf("a statement of %d bytes: %w", most+1, err)
	}
	return fmt.Sprintf("%d bytes are taken, one more is not", most), db.PingContext(ctx)
}
