.PHONY: help test lint unit servers matrix burst outage many elections nats-campaign heavy mutants mutate sim explore evidence bench-failover performance fuzz notices sbom gosec tidy release
.DEFAULT_GOAL := help
comma := ,

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(firstword $(MAKEFILE_LIST))

test: ## everything: lint, unit, servers, heavy, mutants
	@scripts/test.sh lint unit servers heavy mutants

lint: ## gofmt, vet, staticcheck, govulncheck, builds for other systems
	@scripts/test.sh lint

unit: ## tests of all packages but the heavy ones, with -race where it runs
	@scripts/test.sh unit

servers: ## tests against real servers; installs what is missing, see scripts/deps.sh
	@scripts/test.sh servers

matrix: ## every row that real processes show, on every store, and 200 histories of each store: an hour
	@scripts/test.sh matrix

burst: ## 500 members start, 500 more, 600 leave, RUNS times (1): real connections to real servers
	@scripts/test.sh burst

outage: ## the sink of one partition is away for OUTAGE (5m), under load and on a real server: twice as long in all
	@cd drivers/rotanats && ROTA_OUTAGE=$(or $(OUTAGE),5m) go test -count=1 -timeout 2h -v -run '^TestOutageOfTheSink$$' .

many: ## PARTITIONS (10000) of one stream on the embedded server: start, rest, hand-over; a quarter of an hour
	@cd drivers/rotanats && ROTA_MANY=$(or $(PARTITIONS),10000) go test -count=1 -timeout 1h -v -run '^TestManyPartitions$$' .

elections: ## leaders of consumers step down TIMES (48) and servers of a cluster restart, beside the NATS client; on an idle machine
	@cd drivers/rotanats && ROTA_ELECTIONS=$(or $(TIMES),48) go test -count=1 -timeout 1h -v -run '^(TestElectionOfAConsumersLeader|TestRollingRestart)$$' .

nats-campaign: ## 7000 hand-overs and 110 faults on each of embedded, single and replicated NATS servers: half an hour; CAMPAIGN=400,8 for fewer
	@cd drivers/rotanats && ROTA_CAMPAIGN=$(or $(CAMPAIGN),7000$(comma)110) go test -count=1 -timeout 3h -v -run '^(TestCampaign|TestGracefulHandOverKeepsTheConsumer)$$' .

heavy: ## simulator and explorer, without -race
	@scripts/test.sh heavy

mutants: ## known defects, built in one by one: each must be caught
	@scripts/test.sh mutants

mutate: ## change internal/core mechanically, thousands of ways: each must be noticed; SAMPLE=300 SEED=7, or ONLY=REGEXP
	@go run ./test/mutate -page docs/mutation.md $(if $(SAMPLE),-sample $(SAMPLE)) $(if $(SEED),-seed $(SEED)) $(if $(ONLY),-only '$(ONLY)') $(ARGS)

sim: ## play schedules in the simulator: make sim ARGS='--seed 7'
	@go run ./cmd/rota sim $(ARGS)

explore: ## try everything that can happen in every small configuration: a quarter of an hour
	@go run ./cmd/rota explore $(ARGS)

evidence: ## run what docs/evidence.md tells of and write it anew: hours
	@scripts/evidence.sh

bench-failover: ## measure joining, leaving and dying, beside franz-go's consumer groups: half an hour, on an idle machine
	@scripts/bench-failover.sh

performance: ## write docs/performance.md of what bench-failover measured
	@go run ./cmd/rota/internal/dev bench page -o page build/bench >docs/performance.md.part && mv docs/performance.md.part docs/performance.md

fuzz: ## fuzz every target for FUZZTIME (10s) each
	@scripts/test.sh fuzz

notices: ## write cmd/rota/THIRD-PARTY-NOTICES of the modules that the binary has
	@cd cmd/rota && go run ./internal/notices >THIRD-PARTY-NOTICES.part && mv THIRD-PARTY-NOTICES.part THIRD-PARTY-NOTICES

sbom: ## print what the binary is built from, as CycloneDX JSON
	@go run ./cmd/rota version --sbom

gosec: ## look for what gosec knows; scripts/gosec.txt has the findings that are none, and why
	@scripts/test.sh gosec

tidy: ## go mod tidy in every module, then go work sync
	@scripts/test.sh tidy

release: ## prepare a release, one commit and a tag for each module: make release VERSION=v0.3.0
	@scripts/release.sh '$(VERSION)'
