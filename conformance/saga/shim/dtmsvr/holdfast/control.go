// Package holdfast speaks to a Holdfast server on behalf of DTM's tests: to its control door, and to DTM's own endpoints where they say
// enough.
package holdfast

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

var (
	mu        sync.Mutex
	now, cron time.Duration // that the server knows of
	told      bool
)

// Clock tells the server how far ahead its clocks are, if it does not know.
func Clock(nowForward, cronForward time.Duration) {
	mu.Lock()
	defer mu.Unlock()
	if told && nowForward == now && cronForward == cron {
		return
	}
	body, err := json.Marshal(map[string]int64{"now_forward_ms": nowForward.Milliseconds(), "cron_forward_ms": cronForward.Milliseconds()})
	if err != nil {
		panic(err)
	}
	read(must(http.Post(control("clock"), "application/json", bytes.NewReader(body))))
	told, now, cron = true, nowForward, cronForward
}

// CronOnce runs one transaction that is due and returns its gid, "" if there is none.
func CronOnce() string {
	var answer struct{ Gid string }
	if err := json.Unmarshal(read(must(http.Post(control("cron-once"), "", nil))), &answer); err != nil {
		panic(err)
	}
	return answer.Gid
}

// Processed has heard told the gid of each pass from now on, one after another.
func Processed(heard func(gid string)) {
	res := must(http.Get(control("processed")))
	if res.StatusCode != http.StatusOK {
		panic(fmt.Sprintf("%s: %s", control("processed"), res.Status))
	}
	go func() {
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			heard(lines.Text())
		}
	}()
}

func control(path string) string {
	return "http://" + os.Getenv("HOLDFAST_SAGA_CONTROL") + "/test/" + path
}

func must(res *http.Response, err error) *http.Response {
	if err != nil {
		panic(err)
	}
	return res
}

// read is the body of an answer that says success.
func read(res *http.Response) []byte {
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		panic(fmt.Sprintf("%s: %s: %s: %v", res.Request.URL, res.Status, b, err))
	}
	return b
}
