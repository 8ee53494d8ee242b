# Quiver: `make run` shows it working (`make run-k8s`: on a Kubernetes cluster), `make test` tests everything. All set up what they need.
CARGO ?= cargo

.PHONY: help setup build run run-k8s test lint unit instructions model miri libraries fuzz nightly system pods cluster e2e bench bench-test clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## install what building, running and testing need (Debian packages; as root)
	scripts/setup.sh

build: ## build quiverd, quiver and quiver-tgen into target/release (bin/quiver-bench needs no building)
	scripts/setup.sh build
	$(CARGO) build --locked --release --bins

run: ## set up, build, and show pods exchanging packets over memif and tap
	scripts/setup.sh run
	$(CARGO) build --locked --release --bins
	python3 scripts/demo.py

run-k8s: ## set up, build, and show pods on a real Kubernetes cluster with Quiver exchange packets over memif; builds all of Kubernetes first
	scripts/setup.sh cluster
	$(CARGO) build --locked --release --bins
	scripts/cluster.sh build
	/usr/bin/python3 scripts/demo_k8s.py

test: setup build lint unit instructions model libraries system pods bench-test ## set up, build, and run every test

lint: ## formatting, clippy, shell and Python syntax
	scripts/lint.sh

unit: ## unit, property and whole-graph tests; memif against DPDK
	QUIVER_REQUIRE_PEERS=1 QUIVER_REQUIRE_ROOT=$(shell [ $$(id -u) = 0 ] && echo 1) $(CARGO) test --locked --workspace

instructions: ## instructions a packet, node by node, by callgrind, against scripts/instructions.toml
	CARGO=$(CARGO) scripts/instructions.py

model: ## model checks of ring cursor and publication (loom)
	scripts/model.sh

miri: ## Miri (undefined behaviour) over regions, packet slots and the rings of memif; five minutes, with a nightly compiler
	scripts/miri.sh

fuzz: ## fuzz the memif library for MINUTES (10) a target; a short run is part of `unit`
	scripts/fuzz.sh $(or $(MINUTES),10)

nightly: ## what is too long for each run: fuzzing MINUTES (10) a target in Rust and Go, models, Miri, the cluster and Kubernetes' own suite; four hours
	scripts/nightly.sh $(or $(MINUTES),10)

libraries: ## the memif libraries for Go and C
	scripts/libraries.sh

system: ## whole-system tests: network namespaces, ping, iperf3, testpmd
	scripts/system.sh

pods: ## the CNI plugin and the agent for Kubernetes: build, lint, unit tests, pods in network namespaces
	scripts/pods.sh

cluster: ## Quiver as the network of a real Kubernetes cluster of two nodes; not part of `test`: it builds all of Kubernetes first
	scripts/setup.sh cluster
	$(CARGO) build --locked --release --bins
	scripts/cluster.sh

e2e: ## Kubernetes' own end-to-end suite against Quiver: conformance of the network, or the specs that FOCUS names; ten minutes, and builds all of Kubernetes first
	scripts/setup.sh cluster
	$(CARGO) build --locked --release --bins
	scripts/cluster.sh e2e $(if $(FOCUS),'$(FOCUS)')

bench-test: ## tests of quiver-bench, and its self-test
	QUIVER_REQUIRE_PEERS=1 scripts/bench.sh

bench: build ## measure the short set (docs/performance.md), ten minutes at most
	scripts/bench-short.sh

clean: ## remove what was built
	$(CARGO) clean
