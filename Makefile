# Every daily command, each a thin call of go or of a script in scripts/. `make` lists them.
# No cgo anywhere: one static binary that runs on any Linux of its architecture.
export CGO_ENABLED = 0
export GOFLAGS = -trimpath -tags=gms_pure_go

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

build: ## build bin/holdfast
	@mkdir -p bin
	go build -o bin/holdfast ./cmd/holdfast

extension: ## build bin/holdfast_sqlite.so, the SQLite extension (C; all else is Go)
	@scripts/extension.sh

run: build ## build and start every finished door until Ctrl-C, print one working command per door
	@scripts/run.sh

test: ## everything that must pass before a change lands
	@scripts/test.sh

check: ## gofmt, vet, staticcheck, import rules, unit tests: under a minute when warm
	@scripts/check.sh

golden: ## rewrite the golden files in testdata (then read the diff: it is a format change)
	@scripts/golden.sh

fuzz: ## every fuzz test for T each: make fuzz T=30s [PKG=./core/wal]
	@scripts/fuzz.sh $(or $(T),30s) $(or $(PKG),./...)

sim: ## the simulated cluster: make sim SEED=4711 replays one seed, make sim N=1000 runs many
	@SEED='$(SEED)' N='$(N)' scripts/sim.sh

mutants: ## break the core in 200 small ways and see the named test fail: make mutants [ONLY=core/wal/]
	@go run ./internal/mutants -only '$(ONLY)' -results internal/mutants/RESULTS.md

gremlins: ## mutants that a tool makes up, and the tests of their package: make gremlins [PKG=sqlite/gate]; hours for all
	@scripts/gremlins.sh $(PKG)

conformance: ## unmodified foreign clients against real nodes: make conformance [DOOR=kv] [QUICK=1: the doors that changed] [JOBS=2] [ROUNDS=200: of money transfers]
	@scripts/conformance.sh '$(DOOR)' '$(QUICK)' '$(JOBS)'

peers: ## bring the programs we are measured against into build/peers
	@scripts/peers.sh

bench: ## measured beside its peers: make bench [DOOR=kv] [ARGS='-api v2 -clients 64 -rounds 1 -seconds 5']
	@scripts/bench.sh '$(DOOR)' $(ARGS)

clean: ## remove bin/ and build/
	rm -rf bin build

.PHONY: help build extension run test check golden fuzz sim mutants gremlins conformance peers bench clean
.DEFAULT_GOAL := help
