# Two commands do everything on a fresh machine: `make run` and `make test`.
# One cargo profile (release) serves runs and tests. The command has only Core's interpreter: its C++
# takes half a minute. Core's kernel library, five CPU minutes of C++, is built once, for tests and
# benchmarks.

CARGO ?= cargo
CARGO_FLAGS ?= --locked

.PHONY: help run test without-kernel backends python c python-modules postgres build install dist features examples page deps kernel-deps arm64-deps fetch outside models arm64 macos-check memcheck one-core fuzz lint doc bench clean

help:
	@echo "make run    install what is missing, build what 'blockmill demo' needs, run it"
	@echo "make test   build everything, run 'blockmill demo' and all tests, then list the tests that were left out"
	@echo "make without-kernel  the tests that do without Core's kernel library, as on macOS"
	@echo "make backends  tests as on machines with AVX2 alone, and without vectors"
	@echo "make outside  crates outside the workspace that embed the verifier, built from nothing"
	@echo "make examples  the examples of the crates in lib/"
	@echo "make page   the page of the command in a browser, with screenshots in target/page"
	@echo "make python  the Python package: its wheel, and its tests in a new virtual environment"
	@echo "make c PREFIX=/usr/local   the C library: header, libraries, pkg-config"
	@echo "make install PREFIX=/usr/local   an optimised command with its manual page and completions"
	@echo "make dist   a .tar.gz and a .deb of command and C library, a wheel, for x86-64 and ARM64, for an old C library"
	@echo "make features  the command with each set of its features"
	@echo "make models the lock-free parts under loom, and over the portable twin of futexes"
	@echo "make memcheck  those parts and the coin map under valgrind; make one-core  the same on one core"
	@echo "make arm64  the command and its crates for ARM64, cross-built, their tests under qemu"
	@echo "make macos-check  whether the command and the tests of its crates compile for macOS"
	@echo "make fuzz   all fuzz targets, a short while each (four minutes)"
	@echo "make lint   formatting, clippy with warnings denied, documentation"
	@echo "make bench  the benchmark tables (minutes)"

# Without Parquet, SQLite and descriptors, whose libraries take four CPU minutes. `make test` builds
# nothing more for it: its command has other features either way.
run: OPENSSL :=
run: deps fetch
	$(CARGO) build --release -p blockmill-cli --no-default-features --features generate $(CARGO_FLAGS)
	./target/release/blockmill demo

# Core's source comes in a package that no target depends on. So a build does not download it.
fetch:
	@$(CARGO) fetch --locked || echo "cargo fetch has failed: the build goes on with what is on this machine"

# `make test TESTS="-p blockmill-coins"` tests one crate. The last lines list the tests that were left
# out or ran short. The output of passing tests has these facts, and goes to target/test.log alone.
TESTS ?= --workspace
SUCCESSES := /^successes:$$/,/^(failures|test result):/{/^(failures|test result):/!d;}

# Python's readers of tables, for the tests of `export`. Without them those tests are left out.
PYTHON_MODULES := target/python

python-modules:
	@mkdir -p $(PYTHON_MODULES)
	@PYTHONPATH=$(PYTHON_MODULES) python3 -c "import pyarrow, duckdb" 2>/dev/null \
		|| python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --target $(PYTHON_MODULES) -r tools/python-modules.txt \
		|| echo "no pyarrow and duckdb for python3: tests that need them are left out"

# A PostgreSQL server, for the tests of `mirror`, which start it themselves. Without it those tests are
# left out.
postgres:
	@is_there() { command -v initdb >/dev/null || [ -n "$$(ls /usr/lib/postgresql/*/bin/initdb /opt/homebrew/opt/postgresql@*/bin/initdb 2>/dev/null)" ]; }; \
	if ! is_there && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null || true; \
	fi; \
	is_there || echo "no PostgreSQL server: tests of mirror are left out; as root: apt-get install postgresql"

# The Python package. The wheel is built with the profile and in the folder of everything else, so no
# C++ is built again. Its tests use chains in files of Core's form; the example that makes them has
# the features of the whole workspace's tests.
PYTHON_ENV := target/python-env
PYTHON_CHAINS := target/python-chains
CORE_FOLDER := target/release/examples/core_folder
REAL_CHAINS := ../shared/data/chains

python: deps fetch
	@rm -rf $(PYTHON_ENV) $(PYTHON_CHAINS) target/wheels
	@python3 -m venv $(PYTHON_ENV) && $(PYTHON_ENV)/bin/python -m pip install -q --disable-pip-version-check -r bindings/python/tests/requirements$(if $(READERS),-$(READERS)).txt \
		|| { rm -rf $(PYTHON_ENV); echo "no virtual environment with maturin and distributed: the Python package is left out"; }
	@if [ -d $(PYTHON_ENV) ]; then set -e; \
		$(CARGO) build --release --workspace --bin blockmill --example core_folder --example given_cases $(CARGO_FLAGS); \
		$(CORE_FOLDER) $(PYTHON_CHAINS)/small 160 2000; \
		target/release/examples/given_cases >$(PYTHON_CHAINS)/cases; \
		$(CORE_FOLDER) $(PYTHON_CHAINS)/large 600 60000; \
		if [ -d $(REAL_CHAINS) ]; then $(CORE_FOLDER) $(PYTHON_CHAINS)/main $(REAL_CHAINS)/mainnet_0_14131.dat; fi; \
		$(PYTHON_ENV)/bin/maturin build --release -m bindings/python/Cargo.toml --out target/wheels $(CARGO_FLAGS); \
		$(PYTHON_ENV)/bin/python -m pip install -q --disable-pip-version-check --no-deps target/wheels/*.whl; \
		(cd bindings/python && ../../$(PYTHON_ENV)/bin/python -m mypy --cache-dir ../../target/mypy python tests); \
		BLOCKMILL_CHAINS=$(CURDIR)/$(PYTHON_CHAINS) BLOCKMILL_COMMAND=$(CURDIR)/target/release/blockmill $(PYTHON_ENV)/bin/python -m pytest -q -p no:cacheprovider bindings/python; \
	fi

test: kernel-deps fetch python-modules postgres
	$(CARGO) test --release $(TESTS) --no-run $(CARGO_FLAGS)
	$(if $(filter --workspace blockmill-cli,$(TESTS)),./target/release/blockmill demo)
	@mkdir -p target && rm -f target/test.status
	@{ $(CARGO) test --release $(TESTS) $(CARGO_FLAGS) -- --show-output 2>&1; status=$$?; \
		echo $$status >target/test.status; } | tee target/test.log | sed -u -E '$(SUCCESSES)'
	@awk -f .ci/left-out.awk target/test.log
	@exit $$(cat target/test.status)

# Tests that do without Core's kernel library: no CMake, no Boost, none of its C++. A cfg leaves out the
# tests beside it. The command's own tests do much that is Linux's: a few of them are here. This runs
# on macOS, and under qemu for ARM64.
SMALL_CRATES := sync pool checkqueue workqueue block blockfiles descriptors rules script coinmap coins store-log fetch validate chain datadir checks engine tables audit mirror chaingen faultdisk realdata cli
SMALL_PACKAGES := $(addprefix -p blockmill-,$(SMALL_CRATES)) -p secp256k1-lanes -p sha256-lanes
SMALL_TARGETS := --lib --bins $(addprefix --test ,it queue in_order pool spawn mass fetcher)
SMALL_CLI := --test cli-it -- demo:: real_chains:: conformance::
WITHOUT_KERNEL := --cfg blockmill_without_kernel

without-kernel: deps fetch
	RUSTFLAGS="$(WITHOUT_KERNEL)" $(CARGO) test --release $(SMALL_PACKAGES) $(SMALL_TARGETS) --test engine-it --target-dir target-without-kernel $(CARGO_FLAGS)
	RUSTFLAGS="$(WITHOUT_KERNEL)" $(CARGO) test --release $(SMALL_PACKAGES) --target-dir target-without-kernel $(CARGO_FLAGS) $(SMALL_CLI)

# Lanes as on other machines, in what uses them. Each backend by itself is a matter of `make test`.
BACKENDS := avx2 portable

backends: kernel-deps fetch
	@for backend in $(BACKENDS); do \
		echo "backend: $$backend"; \
		BLOCKMILL_BACKEND=$$backend $(CARGO) test --release --workspace --lib $(CARGO_FLAGS) || exit 1; \
		BLOCKMILL_BACKEND=$$backend $(CARGO) test --release --workspace --test engine-it $(CARGO_FLAGS) -- lanes:: gathering:: verify_signatures:: || exit 1; \
		BLOCKMILL_BACKEND=$$backend $(CARGO) test --release --workspace $(CARGO_FLAGS) $(SMALL_CLI) || exit 1; \
	done

build: kernel-deps fetch
	$(CARGO) build --release --workspace $(CARGO_FLAGS)

# Another profile: everything is built once more, and optimised as a whole, which takes minutes.
PREFIX ?= /usr/local
DESTDIR ?=
SHARE = $(DESTDIR)$(PREFIX)/share

install: deps fetch
	$(CARGO) build --profile dist -p blockmill-cli $(CARGO_FLAGS)
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(SHARE)/man/man1" "$(SHARE)/bash-completion/completions" "$(SHARE)/zsh/site-functions" "$(SHARE)/fish/vendor_completions.d"
	install -m 755 target/dist/blockmill "$(DESTDIR)$(PREFIX)/bin/blockmill"
	target/dist/blockmill man >"$(SHARE)/man/man1/blockmill.1"
	target/dist/blockmill completions bash >"$(SHARE)/bash-completion/completions/blockmill"
	target/dist/blockmill completions zsh >"$(SHARE)/zsh/site-functions/_blockmill"
	target/dist/blockmill completions fish >"$(SHARE)/fish/vendor_completions.d/blockmill.fish"

# Files to install, in target/packages: the command and the C library as .tar.gz and .deb, and the wheel
# for Python. For another processor than this machine's they are cross-built, and tried under qemu.
MACHINE := $(shell uname -m)
DIST_TARGETS ?= $(MACHINE) $(if $(filter x86_64,$(MACHINE)),aarch64)

dist: PERL := yes
dist: deps fetch $(if $(filter aarch64,$(filter-out $(MACHINE),$(DIST_TARGETS))),arm64-deps)
	packaging/build $(DIST_TARGETS)

# The C library, shared and static, and what pkg-config says of it.
c: deps fetch
	$(CARGO) build --profile dist -p blockmill-c $(CARGO_FLAGS)
	packaging/install-c target/dist "$(DESTDIR)$(PREFIX)" "$(PREFIX)" "-lstdc++ -lgcc_s -lpthread -ldl -lm"

# The command with each set of its features, and how many packages the smallest stands on.
FEATURES := none tables descriptors generate notify http postgres tables,descriptors tables,generate descriptors,generate

features: fetch
	@for features in $(FEATURES); do \
		echo "features: $$features"; \
		$(CARGO) clippy -q --release -p blockmill-cli --no-default-features --features "$${features#none}" $(CARGO_FLAGS) -- -D warnings || exit 1; \
	done

# Each example checks its own result. Those of crates/ are tests. `make test` has built them all, with
# the features of the whole workspace.
EXAMPLES := contention scope work_source primes requesters verify lanes_beside_libsecp256k1 lanes_beside_sha2

examples:
	$(CARGO) build --release --workspace --examples $(CARGO_FLAGS)
	@for name in $(EXAMPLES); do \
		echo "example $$name"; \
		./target/release/examples/$$name || exit 1; \
	done

# Crates outside the workspace, in folders of their own, offline: by path, and packaged and vendored.
outside: deps fetch
	$(CARGO) test --release --workspace --test outside $(CARGO_FLAGS) -- --ignored --test-threads=1

# The page in Chromium, by WebDriver; axe, which judges whether everybody can use it, comes from npm.
# Without root, or without a network, it is left out. The example has the command built with the
# features of `make test`, so nothing is built again.
PAGE := target/page
AXE := target/page-tools/package/axe.min.js

page: deps fetch
	@if ! command -v chromedriver >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver >/dev/null || true; \
	fi
	@[ -e $(AXE) ] || ! command -v npm >/dev/null \
		|| { mkdir -p target/page-tools && cd target/page-tools && npm pack --silent axe-core@4 >/dev/null && tar xzf axe-core-4*.tgz; } || true
	@if ! command -v chromedriver >/dev/null || ! { command -v chromium || command -v google-chrome; } >/dev/null; then \
		echo "no chromium and chromedriver: the page is not tried in a browser; as root: apt-get install chromium chromium-driver"; \
	elif [ ! -e $(AXE) ]; then \
		echo "no axe-core from npm: the page is not tried in a browser"; \
	else set -e; \
		$(CARGO) build --release --workspace --bin blockmill --example core_folder $(CARGO_FLAGS); \
		python3 tools/page/check.py target/release/blockmill $(AXE) $(PAGE); \
	fi

# Installs what is missing: a compiler for the command; OpenSSL for `mirror`; CMake and Boost for Core's
# kernel library, too; Perl, which configures OpenSSL where that is compiled.
# Homebrew's folder is not among those that a compiler looks into.
BREW := $(shell brew --prefix 2>/dev/null)
OPENSSL := yes
deps:
	@$(INSTALL_MISSING)

kernel-deps: BOOST := yes
kernel-deps:
	@$(INSTALL_MISSING)

# Compilers for ARM64, and what runs its programs.
arm64-deps: ARM64 := yes
arm64-deps: PERL := yes
arm64-deps: BOOST := $(filter yes,$(ARM64_KERNEL))
arm64-deps:
	@$(INSTALL_MISSING)

define INSTALL_MISSING
command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust 1.95 or later from https://rustup.rs"; exit 1; }; \
	missing=""; \
	command -v g++ >/dev/null || missing="$$missing g++"; \
	if [ -n "$(BOOST)" ]; then \
		command -v cmake >/dev/null || missing="$$missing cmake"; \
		printf '#include <boost/version.hpp>\n' | g++ -E -x c++ $(if $(BREW),-I$(BREW)/include) - >/dev/null 2>&1 || missing="$$missing libboost-dev"; \
	fi; \
	if [ -n "$(OPENSSL)" ] && ! [ -e "$(BREW)/opt/openssl@3" ]; then \
		pkg-config --exists openssl 2>/dev/null || missing="$$missing libssl-dev pkg-config"; \
	fi; \
	if [ -n "$(PERL)" ]; then perl -MIPC::Cmd -MFindBin -e 1 2>/dev/null || missing="$$missing perl"; fi; \
	if [ -n "$(ARM64)" ]; then \
		command -v aarch64-linux-gnu-g++ >/dev/null || missing="$$missing g++-aarch64-linux-gnu"; \
		[ -e /usr/aarch64-linux-gnu/include/stdio.h ] || missing="$$missing libc6-dev-arm64-cross"; \
		{ command -v qemu-aarch64-static || command -v qemu-aarch64; } >/dev/null || missing="$$missing qemu-user-static"; \
	fi; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	echo "missing:$$missing"; \
	if [ "$$(uname -s)" = Darwin ]; then echo "the compiler: xcode-select --install; the rest: brew install cmake boost openssl@3; then run make again"; exit 1; fi; \
	if ! command -v apt-get >/dev/null; then echo "install$$missing with your package manager, then run make again"; exit 1; fi; \
	if [ "$$(id -u)" = 0 ]; then sudo=""; \
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo="sudo"; \
	else echo "run as root: apt-get install$$missing"; exit 1; fi; \
	$$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends $$missing
endef

# Crates that do not need the kernel, in target directories of their own.
models:
	RUSTFLAGS="--cfg blockmill_loom" $(CARGO) test --release -p blockmill-sync -p blockmill-pool -p blockmill-checkqueue -p blockmill-workqueue --lib --target-dir target-loom $(CARGO_FLAGS)
	RUSTFLAGS="--cfg blockmill_portable_wait" $(CARGO) test --release -p blockmill-sync --target-dir target-portable $(CARGO_FLAGS)

# ARM64 on another machine, without Core's kernel library. `ARM64_KERNEL=yes` has the tests beside it,
# too: half a CPU hour of C++ more.
ARM64_KERNEL ?= no
ARM64_PACKAGES ?= $(SMALL_PACKAGES) $(if $(filter yes,$(ARM64_KERNEL)),-p blockmill-kernel)
ARM64_TARGETS ?= $(SMALL_TARGETS)
# Plain integers, the same on all processors, and minutes under qemu.
ARM64_LEFT_OUT := --skip every_planted_fault_is_found
# Limits of time, which no emulator keeps.
ARM64_LEFT_OUT += --skip long_texts_are_refused_at_once --skip hostile_files_are_bounded
# Of the store: faults at every call, and random changes. Thousands of runs, which take hours, of code
# that knows no processor.
ARM64_STORE := -p blockmill-store-log
ARM64_OTHERS = $(strip $(subst $(ARM64_STORE),,$(ARM64_PACKAGES)))
ARM64_STORE_LEFT_OUT := $(addprefix --skip ,faults:: damage:: model:: soak::)
# Of the engine's tests these. The others make hundreds of chains, or take a minute each: power_cuts,
# windows, growing_files, changing_files, failing_store, fetching, chain_blocks, invalid_branches,
# reorganise, resume, stops, snapshots, past and positions, and the lanes' runs of them. kills-it starts
# its own program, which the kernel of this machine does not run.
ARM64_ENGINE := --test engine-it -- assume_valid:: conformance:: doctor:: ties:: the_lanes_are_in_use
# Of the command's, those that say the most for their minutes.
ARM64_CLI := --test cli-it -- demo::it_leaves_no_files real_chains::mainnet real_chains::testnet3 conformance::with_each_way
# Fewer cases of what has random ones.
ARM64_SHORT := BLOCKMILL_TEST_LANES_PRODUCTS=5000 BLOCKMILL_TEST_LANES_DIFFERENTIAL=5000 BLOCKMILL_TEST_LANES_KNOWN=5000 BLOCKMILL_TEST_DEFERRAL=300 PROPTEST_CASES=16

arm64: export ARM64_KERNEL := $(ARM64_KERNEL)
arm64: arm64-deps fetch
	$(if $(ARM64_OTHERS),$(ARM64_SHORT) tools/arm64 test --no-fail-fast $(ARM64_OTHERS) $(ARM64_TARGETS) $(CARGO_FLAGS) -- $(ARM64_LEFT_OUT))
	$(if $(findstring $(ARM64_STORE),$(ARM64_PACKAGES)),$(ARM64_SHORT) tools/arm64 test --no-fail-fast $(ARM64_STORE) --lib --test it $(CARGO_FLAGS) -- $(ARM64_LEFT_OUT) $(ARM64_STORE_LEFT_OUT))
	tools/arm64 test $(ARM64_PACKAGES) $(CARGO_FLAGS) $(ARM64_ENGINE)
	BLOCKMILL_BACKEND=neon tools/arm64 test $(ARM64_PACKAGES) $(CARGO_FLAGS) $(ARM64_CLI)

# Whether the command and the tests of its crates compile for macOS, on another machine: Rust is checked,
# C and C++ are compiled. The compiler is that of `make dist`.
macos-check: PERL := yes
macos-check: deps fetch
	tools/macos check $(SMALL_PACKAGES) $(SMALL_TARGETS) --test engine-it --test cli-it $(CARGO_FLAGS)

# Parts whose threads share memory. The first run searches for leaks, and skips the tests that leak on
# purpose (`forg`); the second runs those.
LOCK_FREE := -p blockmill-sync -p blockmill-pool -p blockmill-checkqueue -p blockmill-workqueue
HOST_RUNNER = CARGO_TARGET_$(shell rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
MEMCHECK := valgrind -q --error-exitcode=9 --fair-sched=try

memcheck:
	@command -v valgrind >/dev/null || { echo "valgrind is missing: install it, then run make again"; exit 1; }
	$(HOST_RUNNER)="$(MEMCHECK) --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite" $(CARGO) test --release $(LOCK_FREE) --lib --tests $(CARGO_FLAGS) -- --test-threads=1 --skip forg
	$(HOST_RUNNER)="$(MEMCHECK)" $(CARGO) test --release $(LOCK_FREE) --lib --tests $(CARGO_FLAGS) -- --test-threads=1 forg
	$(HOST_RUNNER)="$(MEMCHECK) --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite" PROPTEST_CASES=4 $(CARGO) test --release -p blockmill-coinmap --lib $(CARGO_FLAGS) -- --test-threads=1

one-core:
	$(HOST_RUNNER)="taskset -c 0" $(CARGO) test --release $(LOCK_FREE) $(CARGO_FLAGS)

# The flags in fuzz/.cargo/config.toml build for libFuzzer. New inputs go to the scratch folder, which
# is removed; inputs of findings stay in fuzz/artifacts.
FUZZ_TARGETS := block_file chain_blocks chain_files block undo snapshot store_value submit_line feed_request log_page log_trailer log_checkpoint lanes c_interface cache resolve
FUZZ_RUN := -seed=1 -runs=60000 -max_total_time=8 -timeout=20 -rss_limit_mb=2048

fuzz:
	cd fuzz && $(CARGO) build --release $(CARGO_FLAGS)
	@scratch=$$(mktemp -d /dev/shm/blockmill-fuzz.XXXXXX 2>/dev/null || mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	export TMPDIR="$$scratch"; cd fuzz; mkdir -p artifacts; \
	for target in $(FUZZ_TARGETS); do \
		mkdir "$$scratch/$$target"; \
		$(CARGO) run -q --release $(CARGO_FLAGS) --bin $$target -- $(FUZZ_RUN) -artifact_prefix=artifacts/$$target- \
			"$$scratch/$$target" seeds/$$target >"$$scratch/log" 2>&1 || { cat "$$scratch/log"; exit 1; }; \
		echo "$$target: $$(tail -n 1 "$$scratch/log")"; \
	done

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets $(CARGO_FLAGS) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --workspace --no-deps $(CARGO_FLAGS)

doc:
	$(CARGO) doc --release --workspace --no-deps $(CARGO_FLAGS)

bench: build
	./target/release/blockmill-bench connect --json bench-connect.json --html bench-connect.html

clean:
	$(CARGO) clean
