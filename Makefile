# Everything here needs only Go, make and git, apt for one tool, and for the pages a browser; the other tools are built from their pinned
# sources into .build/bin.
SHELL := /bin/bash

BIN     := $(CURDIR)/.build/bin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
INFO    := github.com/prometheus/common/version
LDFLAGS := -X $(INFO).Version=$(VERSION) -X $(INFO).Revision=$(shell git rev-parse HEAD 2>/dev/null) \
           -X $(INFO).Branch=$(shell git rev-parse --abbrev-ref HEAD 2>/dev/null) -X $(INFO).BuildDate=$(shell date -u +%Y%m%d-%H:%M:%S)

GOLANGCI_VERSION := v2.15.0
GOLANGCI         := $(BIN)/golangci-lint-$(GOLANGCI_VERSION)
PROMTOOL         := $(BIN)/promtool
CHROMIUM         := /usr/bin/chromium
PROMETHEUS       := $(BIN)/prometheus
# The oldest Prometheus that rules and configuration are for, as Debian 12 has it.
OLDEST           := 2.42.0
OLDEST_PACKAGE   := $(OLDEST)+ds-5+deb12u1
OLDEST_PROMTOOL  := $(BIN)/promtool-$(OLDEST)
DOCKERLINT       := $(BIN)/dockerlint
FUZZTIME         := 60s
SEEDS            := 4

.PHONY: build demo test lint generated exposition rules browser endtoend statistics bench fuzz soak soak-logs cover tools proof politeness detection clean

build:
	go build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o longctx_exporter .

# The daemon against the built-in simulated server: a table of measured and true values within a minute, and /metrics.
demo: build
	./longctx_exporter serve --demo

# The tests come last, so that their own summary ends the output.
test: tools lint generated exposition rules browser endtoend statistics
	go test -race -short -timeout 45m ./...

lint: $(GOLANGCI) $(DOCKERLINT)
	$(GOLANGCI) fmt --diff
	go vet -tags browser,soak ./...
	$(GOLANGCI) run ./...
	$(DOCKERLINT) deploy/docker/Dockerfile

# What is generated is committed: on a clean checkout generating again changes nothing.
generated:
	go generate ./...
	@if [ -n "$$CI" ]; then git diff --exit-code; fi

exposition: $(PROMTOOL)
	@for page in collector/testdata/*.golden; do echo "promtool check metrics < $$page"; $(PROMTOOL) check metrics < $$page || exit 1; done

# The rules are right, and their unit tests tell every change of them; go test ./... takes the result from its cache.
rules: $(PROMTOOL) $(OLDEST_PROMTOOL)
	$(PROMTOOL) check rules --lint=all --lint-fatal deploy/prometheus/longctx.rules.yml
	$(PROMTOOL) check config deploy/prometheus/prometheus.yml
	go test -race -short -timeout 45m ./deploy/prometheus

# The pages in a real browser, by day and by night, in wide windows and narrow ones. A tag keeps it out of go test ./..., which needs none.
browser: $(CHROMIUM)
	go test -tags browser -run TestBrowser -count=1 . -args -chromium=$(CHROMIUM)

# Everything together, with a real Prometheus. It measures real times, so nothing else runs beside it; go test ./... takes the
# result from its cache.
endtoend: $(PROMTOOL) $(PROMETHEUS)
	go test -race -short -timeout 45m ./deploy/endtoend

# What needs hundreds of runs, and the killing of daemons, without the race detector, which makes it five times as long; with it, fewer.
statistics:
	go test -timeout 45m . ./prober -run 'TestAcceptance|TestIsolationCertificate|TestKilled|TestNeedleFindsOut|TestProof'

# Speed, and what a plan costs the server at equal error.
bench:
	go test -run '^$$' -bench . -benchmem ./...
	go test ./prober/estimate -run TestTripleCostsHalfOfThePair -v -count=1

fuzz:
	@grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$$file" | while read -r name; do \
			echo "$$name"; go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
		done || exit 1; \
	done

# A hundred targets with nine rungs each, probed by the program for ten minutes: memory, goroutines, descriptors, missed runs.
soak:
	go test -tags soak -run TestFleetSoak -v -count=1 -timeout 60m .

# A million log lines through five thousand rotations: none lost, none read twice.
soak-logs:
	go test ./collector/serverlog -run TestSoak -v -count=1 -args -soak

cover:
	@mkdir -p .build
	go test -coverprofile=.build/cover.out ./...
	go tool cover -html=.build/cover.out -o .build/cover.html
	go tool cover -func=.build/cover.out | tail -1

# Measured against the simulated server's truth: a row for each kind of server in each kind of trouble.
proof:
	set -o pipefail; go test ./prober -run 'TestProof|TestNaivePair' -v -count=1 -timeout 60m -args -proof.seeds=$(SEEDS) | grep -v '^=== \|^ *--- PASS'

# What real requests feel of the prober: a simulated day at three loads, with it and without it.
politeness:
	set -o pipefail; go test ./prober -run 'TestPoliteness$$' -v -count=1 -timeout 30m -args -politeness.hours=24 | grep -v '^=== \|^ *--- PASS'

# How long it takes until it is certain that attention became 30 % slower, with confirmations and without: README's table.
detection:
	go test ./prober -run 'TestDetection$$' -v -count=1 -timeout 60m -args -detection.days=14

tools: $(PROMTOOL) $(PROMETHEUS) $(OLDEST_PROMTOOL) $(GOLANGCI) $(DOCKERLINT)

# The server has no user interface, which is built with other tools.
$(PROMTOOL) $(PROMETHEUS): .ci/tools/go.mod .ci/tools/go.sum
	cd .ci/tools && go build -buildvcs=false -tags remove_all_sd -o $@ github.com/prometheus/prometheus/cmd/$(@F)

# A module of its own, so that it does not raise the versions that Prometheus is built with.
$(DOCKERLINT): .ci/dockerlint/main.go .ci/dockerlint/go.mod .ci/dockerlint/go.sum
	cd .ci/dockerlint && go build -buildvcs=false -o $@ .

# Debian's package is unpacked and not installed. A later build of the same version will do; a list of packages that is missing
# or old is fetched once, which needs root.
$(OLDEST_PROMTOOL):
	@if ! { command -v apt-get && command -v dpkg; } >/dev/null; then echo "There is no apt here to fetch Debian's promtool $(OLDEST) with. Put the promtool of" \
		"Prometheus' release $(OLDEST) at $@; without it the tests of the rules fail." >&2; exit 1; fi
	rm -rf .build/debian && mkdir -p .build/debian $(BIN)
	cd .build/debian && fetch() { apt-get download prometheus=$(OLDEST_PACKAGE) || apt-get download 'prometheus=$(OLDEST)*'; } && \
		{ fetch || { apt-get update && fetch; } || { echo "apt has no prometheus $(OLDEST): put promtool of that release at $@" >&2; exit 1; }; } && \
		dpkg -x prometheus_*.deb . && mv usr/bin/promtool $@
	rm -rf .build/debian

$(GOLANGCI):
	GOBIN=$(BIN) go install -buildvcs=false github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(BIN)/golangci-lint $@

$(CHROMIUM):
	@if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "$(CHROMIUM) is missing, and only root on Debian can have it installed here: install Chromium, then give its path as CHROMIUM=..." >&2; exit 1; \
	fi
	apt-get update
	apt-get install -y --no-install-recommends chromium

clean:
	rm -rf .build longctx_exporter
