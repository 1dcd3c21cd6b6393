package program

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/serve/cli"
	"github.com/holdfastdb/holdfast/sqlite/restore"
)

// Branch is the command by which a person decides that a replica goes on with a file that is not its newest state.
func Branch() *cli.Command {
	return &cli.Command{
		Name:    "sqlite branch",
		Args:    "FILE URL",
		Summary: "let a replica go on with a database file that is not its newest state",
		About: `The agent refuses a database that its replica has never seen, and names this command. It leaves a note beside the file, and
changes neither file nor replica. The next agent goes on with the file behind what the replica has now; that can be restored until
--retention has passed. If the replica goes on before, the agent refuses again.`,
		Examples: []string{"holdfast sqlite branch /data/app.db s3://backups/app"},
		Run: func(c *cli.Call) error {
			if len(c.Args) != 2 {
				return cli.Usagef("sqlite branch: wants a file and one URL; write `holdfast sqlite branch FILE URL`")
			}
			path, err := filepath.Abs(c.Args[0])
			if err != nil {
				return fmt.Errorf("sqlite branch: %w", err)
			}
			if info, err := os.Stat(path); err != nil {
				return fmt.Errorf("sqlite branch: %s", cli.Reason(err))
			} else if info.Size() == 0 {
				return fmt.Errorf("sqlite branch: %s is empty; start the agent, and it is restored", c.Args[0])
			}
			ctx, stop := untilInterrupted()
			defer stop()
			r, err := openReplica(ctx, c.Args[1])
			if err != nil {
				return fmt.Errorf("sqlite branch: %w", err)
			}
			head, err := restore.Choose(ctx, r, disk.OS(), path, c.Args[1])
			switch {
			case errors.Is(err, disk.ErrLocked):
				return fmt.Errorf("sqlite branch: an agent has %s; stop it first", c.Args[0])
			case errors.Is(err, restore.ErrEmpty):
				return fmt.Errorf("sqlite branch: there is no replica at %s; start the agent, and it begins there with the file", c.Args[1])
			case err != nil:
				return fmt.Errorf("sqlite branch: %w", err)
			}
			fmt.Fprintf(c.Stdout, "the next agent goes on with %s behind TXID %s of %s\n", c.Args[0], head, c.Args[1])
			return nil
		},
	}
}
