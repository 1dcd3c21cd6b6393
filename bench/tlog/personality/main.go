// Command personality is a server around the Tessera library with its two waits turned down as far as the library allows. Batches wait at
// most 10 ms, and a checkpoint is made every 100 ms. Tessera's own server for files, conformance-posix, waits a second for each; measured
// with few writers that is all one sees. Beside this one no default of theirs decides the comparison.
//
// It has the same surface as conformance-posix: POST /add, and the files of the log by GET. Beyond that it is nothing: no deduplication, no
// limits, no shutdown. It is a module of its own, so that nothing of Tessera's gets into the server's.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

// longestEntry is what an entry bundle can say the length of.
const longestEntry = 65535

func main() {
	dir := flag.String("storage_dir", "", "directory of the log")
	listen := flag.String("listen", "127.0.0.1:2025", "address")
	key := flag.String("private_key", "", "file with the key that signs checkpoints")
	batch := flag.Uint("batch_size", tessera.DefaultBatchMaxSize, "entries of a batch at most")
	age := flag.Duration("batch_age", 10*time.Millisecond, "how long a batch is waited for at most")
	interval := flag.Duration("checkpoint_interval", 100*time.Millisecond, "time between checkpoints; the library takes no less")
	flag.Parse()
	if err := serve(*dir, *listen, *key, *batch, *age, *interval); err != nil {
		log.Fatal(err)
	}
}

func serve(dir, listen, key string, batch uint, age, interval time.Duration) error {
	text, err := os.ReadFile(key)
	if err != nil {
		return err
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	ctx := context.Background()
	driver, err := posix.New(ctx, posix.Config{Path: dir})
	if err != nil {
		return err
	}
	appender, _, _, err := tessera.NewAppender(ctx, driver, tessera.NewAppendOptions().
		WithCheckpointSigner(signer).
		WithCheckpointInterval(interval).
		WithBatching(batch, age))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add", func(w http.ResponseWriter, r *http.Request) {
		entry, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longestEntry))
		if err != nil {
			status := http.StatusBadRequest
			if tooLong := new(http.MaxBytesError); errors.As(err, &tooLong) {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, err.Error(), status)
			return
		}
		index, err := appender.Add(r.Context(), tessera.NewEntry(entry))() // returns when the entry is durable and has its index
		switch {
		case errors.Is(err, tessera.ErrPushback):
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			_, _ = w.Write(strconv.AppendUint(nil, index.Index, 10)) // an error: the client is gone
		}
	})
	files := http.FileServer(http.Dir(dir))
	cached := func(control string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", control)
			files.ServeHTTP(w, r)
		}
	}
	mux.HandleFunc("GET /checkpoint", cached("no-cache"))
	mux.HandleFunc("GET /tile/", cached("max-age=31536000, immutable"))
	server := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}
