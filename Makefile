.PHONY: help test lint unit servers matrix histories frozen-owners broker-campaign bench-brokers failovers burst freezes outage many elections nats-campaign heavy mutants mutate sim explore evidence bench-failover bench-stores performance pictures ramp test-k8s test-image fuzz notices sbom gosec tidy release
.DEFAULT_GOAL := help
comma := ,

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1	/p' $(firstword $(MAKEFILE_LIST))

test: ## everything: lint, unit, servers, heavy, mutants
	@scripts/test.sh lint unit servers heavy mutants

lint: ## gofmt, vet, staticcheck, govulncheck, builds for other systems
	@scripts/test.sh lint

unit: ## tests of all packages but the heavy ones, with -race where it runs
	@scripts/test.sh unit

servers: ## tests against real servers; installs what is missing, see scripts/deps.sh
	@scripts/test.sh servers

matrix: ## every row that real processes show, on every store and broker or on STORES (etcd,redis) and BROKERS (kafka,rabbitmq-quorum), and 200 histories of each store: hours
	@ROTA_STORES=$(STORES) ROTA_BROKERS=$(BROKERS) scripts/test.sh matrix

histories: ## COUNT (1000) histories of each store are judged, while its servers are killed and frozen: an hour
	@scripts/deps.sh
	@ROTA_REQUIRE_REAL=1 ROTA_HISTORIES=$(or $(COUNT),1000) go test -count=1 -timeout 6h -parallel 3 -v -run 'Histories$$' ./test

burst: ## 500 members start, 500 more, 600 leave, RUNS times (1): real connections to real servers; STORES=etcd,zookeeper,redis and BROKERS=kafka,… for others than NATS
	@ROTA_STORES=$(STORES) ROTA_BROKERS=$(BROKERS) scripts/test.sh burst

freezes: ## rota, watchdog and commands that look at their lease are frozen together, TIMES (100) times: two minutes
	@scripts/deps.sh
	@cd test && ROTA_REQUIRE_REAL=1 ROTA_FREEZES=$(or $(TIMES),100) go test -count=1 -timeout 1h -v -parallel 6 -run '^TestB_Agent_NoLookPassesAfterTheLease$$' ./processes

frozen-owners: ## an owner with all the messages that it may fetch is frozen, TRIALS (50) times on every broker or on BROKERS (kafka,rabbitmq-quorum)
	@scripts/deps.sh
	@cd test && ROTA_REQUIRE_REAL=1 ROTA_STORES=embedded ROTA_BROKERS=$(BROKERS) ROTA_FROZEN=$(or $(TRIALS),50) go test -count=1 -timeout 1h -v -parallel 6 -run '^TestFrozenOwners$$' ./processes

broker-campaign: ## MESSAGES (200000) through 32 partitions of every broker or of BROKERS while members and the broker are killed: ten minutes each
	@scripts/deps.sh
	@cd test && ROTA_REQUIRE_REAL=1 ROTA_STORES=embedded ROTA_BROKERS=$(BROKERS) ROTA_MESSAGES=$(or $(MESSAGES),200000) go test -count=1 -timeout 3h -v -run '^TestBrokerCampaign$$' ./processes

bench-brokers: ## on each broker: speed beside the bare client, 1000 partitions on one member, and for how long a partition that moves is idle: half an hour, on an idle machine
	@scripts/deps.sh
	@for d in rotarabbit rotaactive rotakafka; do (cd drivers/$$d && go test -timeout 1h -run '^$$' -bench AgainstBare -benchtime 10x .) || exit 1; done
	@for d in rotarabbit rotaactive rotakafka; do (cd drivers/$$d && ROTA_REQUIRE_REAL=1 ROTA_MANY=1000 go test -count=1 -timeout 1h -v -run '^TestManyPartitions$$' .) || exit 1; done
	@cd test && ROTA_REQUIRE_REAL=1 ROTA_STORES=embedded ROTA_MOVING=$(or $(ROUNDS),3) go test -count=1 -timeout 1h -v -run '^TestIdleWhileMoving$$' ./processes

failovers: ## an endpoint that serves members is killed under load, COUNT (20) times each: a node of three of RabbitMQ, and the active one of two brokers of ActiveMQ, by each protocol
	@scripts/deps.sh
	@for d in rotarabbit rotaactive; do (cd drivers/$$d && ROTA_REQUIRE_REAL=1 ROTA_FAILOVERS=$(or $(COUNT),20) go test -count=1 -timeout 2h -v -run '^TestS0_13c_' .) || exit 1; done

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

bench-stores: ## measure joining, leaving and dying on each store, ROUNDS times (1), as ratios to the embedded NATS: a quarter of an hour, on an idle machine
	@cd test && ROTA_BENCH_ROUNDS=$(or $(ROUNDS),1) go test -run '^$$' -bench '^BenchmarkFailoverOnStores$$' -benchtime 1x -timeout 2h -v .

performance: ## write docs/performance.md of what bench-failover measured
	@go run ./cmd/rota/internal/dev bench page -o page build/bench >docs/performance.md.part && mv docs/performance.md.part docs/performance.md

pictures: ## draw docs/pictures anew
	@go run ./cmd/rota/internal/dev pictures docs/pictures

ramp: ## a load that grows and falls, doubles at once, a scaler that hangs: rota up and Auto Scaling follow it; writes docs/pictures/ramp.svg; a quarter of an hour, on an idle machine
	@mkdir -p build/ramp docs/pictures
	@cd test && ROTA_RAMP=$(CURDIR)/build/ramp go test -count=1 -timeout 1h -v -run '^(TestRamp|TestRampOfAutoScaling|TestLoadDoublesAtOnce|TestAFrozenScaler)$$' .
	@go run ./cmd/rota/internal/dev ramp build/ramp/local.jsonl >docs/pictures/ramp.svg.part && mv docs/pictures/ramp.svg.part docs/pictures/ramp.svg

test-k8s: ## scale workloads of a real Kubernetes, which it builds once: eleven minutes of a processor; then a ramp of half the length of make ramp's, which ROTA_RAMP=FOLDER makes a whole one
	@bin=$$(scripts/k8s.sh) && cd test && ROTA_K8S=$$bin go test -count=1 -timeout 20m -v -run '^(TestKubernetes|TestRampOfKubernetes)$$' .

test-image: ## carry out the steps of deploy/Dockerfile and run the binary in an empty root: minutes
	@cd test && ROTA_IMAGE=1 go test -count=1 -timeout 20m -v -run '^TestDockerfileMakesAnImage$$' .

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
