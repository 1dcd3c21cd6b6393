package server

import (
	"context"
	"os"
	"time"

	"github.com/holdfastdb/holdfast/internal/footprint"
)

// testQuiet names a variable with which a test makes a server come to rest sooner.
const testQuiet = "HOLDFAST_TEST_QUIET"

// restPatience bounds a rest: a store on a disk that has just been full of work may have much to write.
const restPatience = time.Minute

// comeToRest keeps the process as small as what lives in it. The caller calls stop before it stops the member.
func (s *Server) comeToRest() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	opt := footprint.Options{
		Aim: os.Getenv("GOGC") == "",
		Rest: func() {
			ctx, cancel := context.WithTimeout(ctx, restPatience)
			defer cancel()
			if err := s.node.Rest(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("memory is not given back at rest", "err", err)
			}
		},
	}
	if d, err := time.ParseDuration(os.Getenv(testQuiet)); err == nil {
		opt.Periods = footprint.Periods{Garbage: d / 4, Caches: d}
	}
	end := footprint.Keep(opt)
	return func() {
		cancel()
		end()
	}
}
