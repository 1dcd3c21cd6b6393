// Command kube runs Kubernetes' API server, unmodified, on three Holdfast members. Eight writers create objects over HTTPS while watches
// follow them and the leader is killed with SIGKILL, twice. Every object that the API server acknowledged must be listed afterwards, once
// and unchanged, and each watch must have told of it once. scripts/kube.sh builds the API server.
//
//	kube [-objects N] [-kills N] [-etcd PATH]
//	kube -crowd 10m
//
// With -etcd the members are that etcd: where the original does not pass, nothing is tested. It is no client library's test and measures
// nothing. A run against Holdfast writes RESULTS-kube.md.
//
// With -crowd one member has many clients. They are an API server with 200 custom resource definitions, a thousand watches through the JSON
// gateway and a jetcd client with 500. It cuts none of them for so long. scripts/jetcd.sh brings jetcd. Such a run writes
// RESULTS-crowds.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfastdb/holdfast/internal/proctest"
	"github.com/holdfastdb/holdfast/internal/results"
)

// kinds are the created objects' kinds, by turns. The API server answers watches of config maps from its own cache. Those of secrets, for
// which apiServer.start switches the cache off, it answers by a watch of ours for each.
var kinds = []string{"configmaps", "secrets"}

const namespace = "conformance"

const resultsHead = `# Kubernetes' API server on three members

Written by ` + "`make conformance DOOR=kv`" + ` (conformance/kube): kube-apiserver 1.37.2, unmodified, over three members whose leader is killed with
SIGKILL while objects are created, and started again. Half of the objects are config maps, whose watch the API server answers from
its cache; half are secrets, whose watch is one of the kv door's.

`

func main() {
	objects := flag.Int("objects", 3000, "how many to create")
	kills := flag.Int("kills", 2, "how often the leader is killed meanwhile")
	bin := flag.String("holdfast", "bin/holdfast", "the server")
	etcd := flag.String("etcd", "", "an etcd to run instead")
	program := flag.String("apiserver", "build/suites/kube-apiserver", "where scripts/kube.sh put the API server")
	table := flag.String("results", "conformance/RESULTS-kube.md", "where a run against Holdfast writes its table")
	lasts := flag.Duration("crowd", 0, "keep a crowd of watches for so long instead")
	crowds := flag.String("crowds", "conformance/RESULTS-crowds.md", "where a run of a crowd of ten minutes or more writes its table")
	flag.Parse()
	if *lasts > 0 {
		if *lasts < 10*time.Minute {
			*crowds = ""
		}
		if err := runCrowd(*bin, *program, *crowds, *lasts); err != nil {
			fmt.Fprintln(os.Stderr, "kube conformance:", err)
			os.Exit(1)
		}
		return
	}
	kind := proctest.Holdfast(*bin)
	if *etcd != "" {
		kind, *table = proctest.Etcd(*etcd), ""
	}
	if err := run(kind, *program, *table, *objects, *kills); err != nil {
		fmt.Fprintln(os.Stderr, "kube conformance:", err)
		os.Exit(1)
	}
}

func run(kind proctest.Server, program, table string, objects, kills int) error {
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("%w; run scripts/kube.sh", err)
	}
	dir, err := os.MkdirTemp("", "kube-conformance")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cluster, err := proctest.New(dir, kind, 3)
	if err != nil {
		return err
	}
	defer cluster.Close()
	if err := cluster.Run(); err != nil {
		return err
	}
	api, err := startAPI(ctx, program, filepath.Join(dir, "apiserver"), cluster.Endpoints())
	if err != nil {
		return err
	}
	defer api.Kill()

	r := &results.Steps{}
	made := &creation{api: api, want: objects}
	var watches []*watch
	r.Do("watches begin", func() (string, error) {
		if err := api.createNamespace(ctx, namespace); err != nil {
			return "", err
		}
		for _, k := range kinds {
			w, err := beginWatch(ctx, api, k)
			if err != nil {
				return "", err
			}
			watches = append(watches, w)
		}
		return "config maps through the API server's cache, secrets through none", nil
	})
	r.Do(fmt.Sprintf("%d objects by %d writers, leader killed", objects, writers), func() (string, error) {
		return made.run(ctx, cluster, kills)
	})
	for i, k := range kinds {
		r.Do("list "+k+" by pages at one revision", func() (string, error) { return made.listed(ctx, k) })
		if i < len(watches) {
			r.Do("watch of "+k, func() (string, error) { return watches[i].finish(made.of(k)) })
		}
	}
	r.Do("each member by itself", func() (string, error) { return made.onEach(ctx, cluster) })
	if table != "" {
		if err := r.Write(table, resultsHead); err != nil {
			return err
		}
	}
	if passed, failed := r.Count(); failed > 0 {
		return fmt.Errorf("%d of %d steps failed; the API server's last lines:\n%s", failed, passed+failed, api.LogTail(15))
	}
	return nil
}
