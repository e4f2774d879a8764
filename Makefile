# A thin front on the CMake presets. Every target installs what is missing, configures, builds and
# runs; each step says what it does and how long it took.
MAKEFLAGS += --no-print-directory
STEP := tools/step.sh
PRESET ?= release
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60

.PHONY: help build test demo bench bench-short fuzz tsan tidy format check-format install clean nightly \
        packages test-packages format-packages configure cli

help:
	@echo "make build     configure and build everything into build/"
	@echo "make test      build, run every test, those beside the code again under sanitizers"
	@echo "make demo      compare every attention for a minute, train a small model, write a page"
	@echo "make bench     compare with PyTorch and ONNX Runtime on this machine"
	@echo "make bench-short   the same on short sequences, one token at a time and short batches"
	@echo "make fuzz      hostile files for every reader, FUZZ_SECONDS ($(FUZZ_SECONDS)) each, under libFuzzer"
	@echo "make tsan      what runs on several threads, under the thread sanitizer"
	@echo "make nightly   thousands of models drawn from the product of what there is, dry and real"
	@echo "make tidy      clang-tidy over the library and the command line"
	@echo "make format    clang-format every C++ file in place"
	@echo "make install   install the library, headers and command line into PREFIX ($(PREFIX))"
	@echo "make clean     remove what was built"

packages:
	@$(STEP) "packages: install what is missing" tools/install_packages.sh

configure: packages
	@$(STEP) "configure: $(PRESET)" cmake --preset $(PRESET) --log-level=WARNING

build: configure
	@$(STEP) "build: $(PRESET)" cmake --build --preset $(PRESET)

test-packages:
	@$(STEP) "packages: install what the tests of format and page need" \
	  tools/install_packages.sh clang-format nodejs npm chromium

test: test-packages configure
	@$(STEP) "build: everything, and the library again under sanitizers" cmake --build --preset tests
	@$(STEP) "test: every test, those beside the code a second time under sanitizers" \
	  ctest --preset tests

fuzz: packages
	@$(STEP) "packages: install clang and its run-time libraries" \
	  tools/install_packages.sh clang libclang-rt-14-dev libomp-dev
	@$(STEP) "configure: fuzz" cmake --preset fuzz --log-level=WARNING
	@$(STEP) "build: the fuzz targets" cmake --build --preset fuzz
	@$(STEP) "fuzz: $(FUZZ_SECONDS) s each" tools/fuzz.sh build-fuzz $(FUZZ_SECONDS) $(FUZZ_TARGETS)

tsan: packages
	@$(STEP) "packages: install clang and its run-time libraries" \
	  tools/install_packages.sh clang libclang-rt-14-dev libomp-dev
	@$(STEP) "configure: tsan" cmake --preset tsan --log-level=WARNING
	@$(STEP) "build: the tests that use threads" cmake --build --preset tsan
	@$(STEP) "test: the tests that use threads" ctest --preset tsan

nightly: build
	@$(STEP) "nightly: 20,000 models, dry, metered and by formula" \
	  env LONGSPAN_SAMPLES=20000 build/tests/learning_test --gtest_filter='Walk.*'
	@$(STEP) "nightly: faults that a test must notice" tools/seeded_faults.py build

tidy: packages
	@$(STEP) "packages: install what is missing" tools/install_packages.sh clang-tidy
	@$(STEP) "configure: tidy" cmake --preset tidy --log-level=WARNING
	@$(STEP) "clang-tidy: what changed since it was last clean" cmake --build --preset tidy

# The command line alone: a fresh machine should not wait for the tests.
cli: configure
	@$(STEP) "build: the library and the command line" \
	  cmake --build --preset $(PRESET) --target longspan_cli

demo: cli
	@$(STEP) "demo: train, generate, compare" tools/demo.sh build/longspan

bench: build
	@$(STEP) "packages: install the peers" tools/install_bench_packages.sh
	@$(STEP) "bench: longspan against its peers" benchmarks/compare_peers.py $(BENCH)

format-packages:
	@$(STEP) "packages: install what is missing" tools/install_packages.sh clang-format

format: format-packages
	@$(STEP) "format: every C++ file" tools/check_format.sh --fix

check-format: format-packages
	@$(STEP) "format: check every C++ file" tools/check_format.sh

bench-short: build
	@$(STEP) "packages: install the peers" tools/install_bench_packages.sh
	@$(STEP) "bench: short sequences against peers" benchmarks/compare_short.py $(BENCH)

install: build
	@$(STEP) "install: into $(PREFIX)" cmake --install build --prefix $(PREFIX)

clean:
	@$(STEP) "clean: remove the build trees" rm -rf build build-debug build-fuzz build-tidy build-tsan
