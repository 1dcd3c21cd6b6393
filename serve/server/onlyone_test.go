package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/disk"
	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/wait"
)

// claims is the environment variable that has this test's program claim a member and stay.
const claims = "HOLDFAST_TEST_CLAIM"

// A process that runs as a member keeps others of this machine from it until it ends.
func TestOneProcessRunsAsAMember(t *testing.T) {
	if id, err := strconv.ParseUint(os.Getenv(claims), 16, 64); err == nil {
		claim, err := claimMember("original", id)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("claimed")
		time.Sleep(time.Hour) // not for ever: Go ends a program in which nothing can happen any more
		claim.release()
	}
	t.Parallel()
	member := uint64(os.Getpid())<<20 | 1
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := proctest.NewProcess(filepath.Join(t.TempDir(), "log"), self, "-test.run=^TestOneProcessRunsAsAMember$")
	p.Setenv(fmt.Sprintf("%s=%x", claims, member))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	wait.Until(t, "the other process has it", func() bool { return !p.Running() || strings.Contains(p.LogTail(5), "claimed") })
	copied := t.TempDir()
	if _, err := claimMember(copied, member); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s is the data directory of member %x, and process %d runs as that member", copied, member, p.PID())) {
		t.Errorf("beside its original: %v", err)
	}
	lock, err := disk.OS().Lock(filepath.Join(copied, "LOCK"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claimMember(copied, member); err != nil {
		t.Errorf("the other process uses this very directory, which is said elsewhere: %v", err)
	}
	lock.Unlock()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	mine, err := claimMember("copy", member)
	if err != nil || mine.l == nil {
		t.Fatalf("once the original has ended: %v", err)
	}
	if _, err := claimMember("copy", member); err != nil {
		t.Errorf("this process is no other one: %v", err)
	}
	mine.release()
}
