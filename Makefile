# The two commands everybody needs are `make demo` and `make test`. Both set up what they need, and
# every target builds with the one release profile, so nothing compiles twice.

CARGO ?= cargo
RL_LAB = target/release/rl-lab

.PHONY: help demo build test check fmt bench soak clean

help:
	@echo 'make demo    run the race on whatever is there: a Docker engine, else local servers'
	@echo 'make test    all tests; installs what they need on a Debian machine as root'
	@echo 'make check   formatting and lints'
	@echo 'make bench   speed: of the checkers, and as ratios against redis-benchmark, docker run and no proxy'
	@echo 'make soak    the longer checks: scenarios twenty times on each backend, ten minutes of kills, five of fuzzing'

# A build that has nothing to do takes a tenth of a second: the second demo starts at once.
build:
	@$(CARGO) build --release

demo: build
	@scripts/setup demo
	@scripts/build-image --if-useful
	@$(RL_LAB) race

# What cannot be set up here is skipped by its tests, which say so; RL_LAB_REQUIRE_ENGINES=1 (as in
# .ci/run) makes it a failure.
test:
	@scripts/setup all || { [ -z "$$RL_LAB_REQUIRE_ENGINES" ] && echo 'going on: tests that need it are skipped'; }
	@scripts/build-image --if-useful
	@scripts/build-image --postgres --if-useful
	@scripts/adapters/install python node php cell || { [ -z "$$RL_LAB_REQUIRE_ENGINES" ] && echo 'going on: tests of libraries that are not there are skipped'; }
	@scripts/servers images || { [ -z "$$RL_LAB_REQUIRE_ENGINES" ] && echo 'going on: tests of servers that are not there are skipped'; }
	$(CARGO) test --release

check:
	$(CARGO) fmt --check
	$(CARGO) clippy --release --all-targets -- -D warnings

bench: build
	@scripts/setup all
	@scripts/build-image --if-useful
	$(CARGO) bench --bench checkers
	$(CARGO) bench --bench throughput
	$(CARGO) bench --bench wire
	$(CARGO) bench --bench explorer

soak: build
	@scripts/setup all
	@scripts/build-image --if-useful
	scripts/soak
	scripts/soak-kills
	scripts/fuzz-resp

clean:
	$(CARGO) clean
