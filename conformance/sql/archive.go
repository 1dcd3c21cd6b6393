package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfastdb/holdfast/internal/bucket"
)

// waitsForArchive begins a session whose commits are answered when the archive has them.
const waitsForArchive = "SET holdfast_ack = 'archive'"

// beforeDiskGoes is the least time that the writers have.
const beforeDiskGoes = time.Second

// fromArchive kills a server that ships to a bucket, removes its disk and restores from the bucket. Every second writer waits for the archive by
// its session, or all of them by the server's flag.
func (s *suite) fromArchive(byFlag bool) (note string, err error) {
	store, err := bucket.Start()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	store.Slow(5 * time.Millisecond)
	dir, err := os.MkdirTemp(s.dir, "archived.")
	if err != nil {
		return "", err
	}
	flags := []string{"--archive", store.URL("rows")}
	if byFlag {
		flags = append(flags, "--ack", "archive")
	}
	cluster, err := members(s.bin, dir, 1, flags...)
	if err != nil {
		return "", err
	}
	n := cluster.Nodes[0]
	n.Setenv(store.Env()...)
	if err := cluster.Run(); err != nil {
		return "", err
	}
	defer cluster.Close()
	if err := risen(cluster); err != nil {
		return "", err
	}
	c, were, all, err := s.stock(n)
	if err != nil {
		return "", err
	}
	defer c.close()
	if err := c.exec(waitsForArchive, "UPDATE kills.starts SET n = n + 1"); err != nil { // all before it is archived with it
		return "", err
	}
	waits := map[int64]bool{}
	for _, w := range all {
		switch waits[w.id] = byFlag || w.id%2 == 0; {
		case byFlag:
		case waits[w.id]:
			w.setting = waitsForArchive
		default:
			w.setting = "SET holdfast_ack = 'commit'"
		}
	}
	rounds := 3
	if s.quick {
		rounds = 1
	}
	for range rounds - 1 {
		if err := writeUntilKilled(n, all, beforeDiskGoes); err != nil {
			return "", err
		}
		if _, err := start(n); err != nil {
			return "", err
		}
		if _, err := judge(n, all); err != nil {
			return "", err
		}
	}
	if err := writeUntilKilled(n, all, beforeDiskGoes); err != nil {
		return "", err
	}
	if err := os.RemoveAll(n.Dir); err != nil {
		return "", err
	}
	var archived int64
	for _, w := range all {
		if waits[w.id] {
			archived += w.acknowledged.Load()
		}
	}
	if archived == 0 {
		return "", errors.New("no transaction was acknowledged by the archive")
	}
	err = s.restored(store.Env(), all, were, func(w *writer) (least, most int64) {
		if waits[w.id] {
			least = w.acknowledged.Load()
		}
		return least, w.tried.Load()
	}, "restore", "--from", store.URL("rows"))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d transactions acknowledged by the archive, all there without the disk; %d rows in %d tables equal by every index, CHECK TABLE is OK",
		archived, len(were), len(shop)), nil
}
