# The few commands of this repository. `make` alone lists them.
# ARGS go to the program or script behind a target: make dev ARGS='--agents 100 --base-port 9000'

ARGS ?=
# Where cargo puts the binary, as cargo itself decides it.
ROLLCALL := $(or $(CARGO_TARGET_DIR),target)/debug/rollcall
# Played by `make game-day`; with a seed it is played as it was.
SCENARIO ?=
SEED ?=

.DEFAULT_GOAL := help
.PHONY: help dev test regions regions-down chaos planted game-day bench

help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

dev: ## three regions in one process with a sample fleet, from a fresh clone
	@infra/install.sh dev
	cargo build -p rollcall
	@exec $(ROLLCALL) dev $(ARGS)

test: ## everything that must hold: format, lints, documentation, build, all tests
	@infra/test.sh

regions: ## three regions as real processes on etcd and Kafka, until `make regions-down`
	@infra/install.sh test
	cargo build -p rollcall
	@infra/regions.sh up --bin $(ROLLCALL) $(ARGS)

regions-down: ## ends them; ARGS=--wipe removes their data as well
	@infra/regions.sh down $(ARGS)

chaos: ## a fault run under traffic, judged by what a tap saw: ARGS='NAME [SEED]', ARGS=list names them; kill-each by itself
	@infra/install.sh test
	cargo build -p rollcall
	cargo run -p rollcall-chaos -- $(or $(ARGS),kill-each)

planted: ## bugs planted into the product, one after another, each of which a named check must find
	@infra/install.sh test
	cargo build -p rollcall-chaos
	cargo build -p rollcall --features planted --target-dir $(or $(CARGO_TARGET_DIR),target)/planted
	@ROLLCALL_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target)/planted/debug/rollcall) $(dir $(ROLLCALL))rollcall-chaos planted $(ARGS)

game-day: ## a failure on purpose, on real processes in networks of their own, with a report: SCENARIO=zone-partition
	@infra/install.sh test
	cargo build -p rollcall -p rollcall-chaos
	@exec $(dir $(ROLLCALL))rollcall-chaos game-day $(SCENARIO) $(SEED)

bench: ## every figure that the documents claim, with machine, load and spread; ARGS picks: list restart dev
	@infra/install.sh bench
	cargo build --release -p rollcall -p rollcall-bench
	@exec $(or $(CARGO_TARGET_DIR),target)/release/rollcall-bench $(ARGS)
