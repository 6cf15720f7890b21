# bfm: behavioral foundation models in C.
#   make          build/libbfm.so, build/libbfm.a, build/bfm (and build/libbfm_cuda.so with nvcc)
#   make demo     build, and show what bfm does, in a minute
#   make test     unit, fuzz, command-line and Python tests
#   make test-browser   the playground in a browser
#   make test-slurm     the scripts for clusters, on a Slurm of one node (needs root)
#   make oracle   live comparison with PyTorch and dm_control
#   make bench    speeds, as ratios to the peers
#   make bundle   bfm and the libraries it needs in one file, for another machine
#   make docs     the documentation as a searchable site, in build/site
#   make format   lay out the source by .clang-format; format-check only reports
#   make lint     clang-tidy and cppcheck
#   make check    format-check, lint and test: everything short of the oracle
#   make deps     install what is missing; all targets that need it do so themselves
#   make clean    remove what was built (not .deps, .venv)
#   make SAN=1    build with address and undefined-behaviour sanitizers, in build-san/
#   make SAN=thread test-threads   tests of threads with the thread sanitizer, in build-tsan/
# CC=clang and CFLAGS="-O1 -g" change the compiler and how it optimizes; V=1 shows the commands.

ifeq ($(origin CC),default)
CC := gcc
endif
CFLAGS ?= -O3 -g
ARCH ?= $(if $(filter x86_64,$(shell uname -m)),x86-64-v3,native)
SAN ?= 0
V ?= 0
BUILD ?= build$(if $(filter 1,$(SAN)),-san)$(if $(filter thread,$(SAN)),-tsan)
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
# whether make only says what it would do, as completion in a shell asks
DRY := $(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
MAKEFLAGS += --no-builtin-rules
ifeq ($(MAKELEVEL)$(findstring -j,$(MAKEFLAGS)),0)
MAKEFLAGS += --jobs=$(shell nproc)
endif
# the file a command makes, or with V=1 the command itself
SAY = $(if $(filter 1,$(V)),,@echo "  $@";)

all:

# Make reads this empty file like a part of the Makefile: where it is missing or old, make runs its
# rule first and then starts again, so that the lines below see what was installed.
ifneq ($(filter-out deps clean docs,$(or $(MAKECMDGOALS),all)),)
ifeq ($(DRY),)
include .deps/ready
endif
endif
MUJOCO := .deps/lib/libmujoco.so
.deps/ready: scripts/deps.sh scripts/models.py .venv/bin/python $(MUJOCO)
	@scripts/deps.sh
.venv/bin/python $(MUJOCO): ;

HDF5_CFLAGS := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags hdf5 2>/dev/null))
HDF5_LIBS := $(shell pkg-config --libs hdf5 2>/dev/null || echo -lhdf5)

bfm_CPPFLAGS := -Iinclude -Isrc -isystem .deps/include $(HDF5_CFLAGS) $(CPPFLAGS)
# clang warns where sanitizers keep it from a wanted vectorization; gcc does not know the warning
bfm_CFLAGS := -std=gnu11 -Wall -Wextra -Wno-pass-failed -march=$(ARCH) -fPIC -fno-math-errno \
              -fno-trapping-math -fopenmp-simd -fvisibility=hidden -pthread -MMD -MP $(CFLAGS)
# in a bundle the libraries lie in lib, in the checkout in .deps/lib, which is found from the place
# of the program: no path of the machine that built it
CHECKOUT := $(shell realpath -m --relative-to=$(BUILD) .)
RPATH = $$ORIGIN/lib:$$ORIGIN/$(UP)$(CHECKOUT)/.deps/lib
# private: a library that is made for a test keeps its own
$(BUILD)/tests/%: private UP := ../../
# an rpath of the old kind also serves the libraries that lie beside those found by it
bfm_LDFLAGS = -Wl,--disable-new-dtags,-rpath,'$(RPATH)' -L.deps/lib $(SANITIZE) $(LDFLAGS)
LDLIBS := -ldnnl $(HDF5_LIBS) -lmujoco -lmuparser -lcjson -lyaml -lpng -lz -lm -ldl -pthread

ifeq ($(SAN),1)
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
endif
ifeq ($(SAN),fuzz)
SANITIZE := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
endif
ifeq ($(SAN),thread)
SANITIZE := -fsanitize=thread
endif
bfm_CFLAGS += $(SANITIZE)

# While MAJOR is 0, each MINOR may change the interface, and is a name of its own for the loader.
VERSION_PART = $(shell sed -n 's/^.define BFM_VERSION_$(1) //p' include/bfm.h)
MAJOR := $(call VERSION_PART,MAJOR)
MINOR := $(call VERSION_PART,MINOR)
SONAME := libbfm.so.$(MAJOR)$(if $(filter 0,$(MAJOR)),.$(MINOR))
LIBRARY := $(BUILD)/libbfm.so.$(MAJOR).$(MINOR).$(call VERSION_PART,PATCH)

# the library ends with src/train; the rest is the program
PROGRAM := view learn serve sweep paper cli
CLI_SRC := $(foreach folder,$(PROGRAM),$(wildcard src/$(folder)/*.c))
LIB_SRC := $(filter-out $(CLI_SRC),$(wildcard src/*/*.c))
CUDA_SRC := $(wildcard src/ops/*.cu)
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(BUILD)/%.o)
CUDA_OBJ := $(CUDA_SRC:%.cu=$(BUILD)/%.cu.o)
CUDA_TESTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/unit/cuda_*.c))
UNIT := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
EXAMPLES := $(patsubst %.c,$(BUILD)/%,$(wildcard examples/*.c))
FUZZ := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))

all: $(BUILD)/libbfm.so $(BUILD)/libbfm.a $(BUILD)/bfm $(if $(NVCC),$(if $(CUDA_SRC),cuda))

# ---------------------------------- build ---------------------------------------------------------

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(SAY) $(CC) $(bfm_CPPFLAGS) $(bfm_CFLAGS) -c $< -o $@

# results say which commit made them, and whether files differed from it
COMMIT := $(shell git describe --always --dirty 2>/dev/null)
ifneq ($(COMMIT),$(shell cat $(BUILD)/commit 2>/dev/null))
.PHONY: $(BUILD)/commit
endif
$(BUILD)/commit:
	@mkdir -p $(@D) && echo '$(COMMIT)' >$@
$(BUILD)/src/sweep/journal.o: bfm_CPPFLAGS += -DBFM_COMMIT='"$(COMMIT)"'
$(BUILD)/src/sweep/journal.o: $(BUILD)/commit

# library and plugin call each other only when they were compiled with the same operations
OPS_SUM := $(firstword $(shell cksum src/ops/ops.h))
$(BUILD)/src/ops/open.o $(BUILD)/src/ops/cuda.cu.o: bfm_CPPFLAGS += -DOPS_SUM=$(OPS_SUM)u

# of all that is in it, others' programs see what is in bfm.h; ours see the objects
$(BUILD)/libbfm.a: $(LIB_OBJ)
	@rm -f $@
	$(SAY) ld -r -o $(@:.a=.o) $^ && objcopy --localize-hidden $(@:.a=.o) && ar rcs $@ $(@:.a=.o)

$(BUILD)/objects.a: $(LIB_OBJ)
	@rm -f $@
	$(SAY) ar rcs $@ $^

$(LIBRARY): $(LIB_OBJ)
	$(SAY) $(CC) -shared -Wl,-soname,$(SONAME) $(bfm_LDFLAGS) -o $@ $^ $(LDLIBS)

# the names that the loader and the linker look for
$(BUILD)/libbfm.so: $(LIBRARY)
	@ln -sf $(notdir $<) $(@D)/$(SONAME) && ln -sf $(SONAME) $@

$(BUILD)/bfm: $(CLI_OBJ) $(BUILD)/objects.a
	$(SAY) $(CC) $(bfm_LDFLAGS) -o $@ $^ -lwebsockets $(LDLIBS)

# they contain these files
$(BUILD)/src/envs/domain.o: $(wildcard robots/*.yaml)
$(BUILD)/src/serve/page.o: $(wildcard web/*) .deps/web/three.js
.deps/web/three.js: ;

# as a user's own program is linked
$(BUILD)/examples/%: examples/%.c $(BUILD)/libbfm.so
	@mkdir -p $(@D)
	$(SAY) $(CC) -O2 -Wall -Wextra -Iinclude $(SANITIZE) $< -o $@ -L$(BUILD) -lbfm \
	  -Wl,-rpath,'$$ORIGIN/..',-rpath-link,.deps/lib

examples: $(EXAMPLES)

# sm_80 and sm_90 as they are, anything newer from the PTX
GENCODE := -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
           -gencode arch=compute_90,code=compute_90

cuda: $(BUILD)/libbfm_cuda.so

$(BUILD)/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(SAY) $(NVCC) -O3 -std=c++17 $(GENCODE) $(bfm_CPPFLAGS) -MMD -MP \
	  -Xcompiler -fPIC,-Wall,-Wextra,-fvisibility=hidden -c $< -o $@

$(BUILD)/libbfm_cuda.so: $(CUDA_OBJ)
	$(SAY) $(NVCC) -shared -cudart static -o $@ $^ -lcublasLt \
	  -Xlinker '-rpath=$$ORIGIN/lib:$$ORIGIN:/usr/local/cuda/lib64'

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(CUDA_OBJ:.o=.d) $(UNIT:=.d) $(FUZZ:=.d) \
         $(CUDA_TESTS:.o=.d)

# ---------------------------------- tests ---------------------------------------------------------

$(BUILD)/tests/unit/%: tests/unit/%.c $(BUILD)/objects.a
	@mkdir -p $(@D)
	$(SAY) $(CC) $(bfm_CPPFLAGS) $(bfm_CFLAGS) -MF $@.d $(bfm_LDFLAGS) $< -o $@ \
	  $(filter %.o,$^) $(BUILD)/objects.a -lcmocka $(LDLIBS)

# it opens the library as other programs do, and is linked with nothing of ours
$(BUILD)/tests/unit/test_two_mujocos: tests/unit/test_two_mujocos.c $(BUILD)/libbfm.so
	@mkdir -p $(@D)
	$(SAY) $(CC) $(bfm_CPPFLAGS) $(bfm_CFLAGS) -MF $@.d $< -o $@ -lcmocka -ldl

$(BUILD)/tests/unit/test_cuda: $(CUDA_TESTS)
$(BUILD)/tests/unit/test_progress: $(BUILD)/src/cli/progress.o
$(BUILD)/tests/unit/test_statistics: $(BUILD)/src/paper/statistics.o
$(BUILD)/tests/unit/test_message: $(BUILD)/src/serve/message.o
$(BUILD)/tests/unit/test_outbox: $(BUILD)/src/serve/outbox.o
SERVED := $(addprefix $(BUILD)/src/serve/,models.o shelf.o watch.o health.o run_log.o curve.o tail.o)
$(BUILD)/tests/unit/test_models $(BUILD)/tests/unit/test_watch: $(SERVED)
PLAYED := $(addprefix $(BUILD)/src/serve/,play.o slot.o ask.o past.o robots.o touch.o poses.o scene.o \
  blobs.o words.o outbox.o)
STAGED := $(addprefix $(BUILD)/src/,serve/stage.o serve/worker.o serve/desk.o serve/take.o view/film.o)
$(BUILD)/tests/unit/test_play: $(PLAYED)
$(BUILD)/tests/unit/test_stage: $(PLAYED) $(STAGED) $(SERVED)

$(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(BUILD)/objects.a
	@mkdir -p $(@D)
	$(SAY) $(CC) $(bfm_CPPFLAGS) $(bfm_CFLAGS) -MF $@.d -fsanitize=fuzzer $(bfm_LDFLAGS) $< -o $@ \
	  $(filter %.o,$^) $(BUILD)/objects.a $(LDLIBS)

$(BUILD)/tests/fuzz/fuzz_message: $(BUILD)/src/serve/message.o

# a program's output is shown only when it fails
RUN = mkdir -p $(BUILD)/logs; log=$(BUILD)/logs/$$(basename $$program).log; \
      if $$program $$arguments >$$log 2>&1; then echo "ok    $$program"; \
      else cat $$log; echo "FAIL  $$program" >&2; exit 1; fi
PYTEST = -m pytest -q -p no:cacheprovider -n $(shell nproc)
HERE = BFM=$(abspath $(BUILD))/bfm BFM_BUILD=$(BUILD) PYTHONPATH=python
FUZZ_SECONDS ?= 3
FUZZ_SEED ?= 1

# one after the other, so that what they print does not mix
test:
	@$(MAKE) --no-print-directory test-unit
	@$(MAKE) --no-print-directory test-fuzz
	@$(MAKE) --no-print-directory test-python

unit: $(UNIT)

test-unit: $(UNIT:=.run)

%.run: %
	@program=$<; arguments=; $(RUN)

# With SAN=thread: the tests of what threads share. test_runs is left out, as gcc 12's sanitizer does
# not know pthread_clockjoin_np.
THREADED := collect crew evaluate interface outbox reward robot_file sim stage threads
THREADED := $(THREADED:%=$(BUILD)/tests/unit/test_%)
test-threads: export TSAN_OPTIONS ?= history_size=7:suppressions=$(CURDIR)/tests/tsan.supp
test-threads: $(THREADED:=.run)

# the fuzzers are clang's; without them the step is left out
test-fuzz:
	@if echo 'int LLVMFuzzerTestOneInput(const char *p, long n) { return p && n < 0; }' | \
	  clang -x c -fsanitize=fuzzer,address -o /dev/null - 2>/dev/null; then \
	  $(MAKE) --no-print-directory BUILD=build-fuzz SAN=fuzz CC=clang CFLAGS=-O1\ -g fuzz; \
	else echo "--    no fuzzing: clang with libFuzzer is not here"; fi

fuzz: $(FUZZ)
	@cd $(CURDIR); for program in $(FUZZ); do \
	  words=tests/fuzz/$$(basename $$program).dict; \
	  arguments="-seed=$(FUZZ_SEED) -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -artifact_prefix=$(BUILD)/"; \
	  [ ! -f $$words ] || arguments="$$arguments -dict=$$words"; $(RUN); done

# a sanitized library cannot be loaded into a plain Python: there, only the command line is tested
test-python: all examples
	@$(HERE) .venv/bin/python $(PYTEST) \
	  $(wildcard $(if $(filter 1,$(SAN)),,tests/python) tests/cli)

# Without Chromium or selenium the tests are skipped, with a word why.
test-browser: all
	@scripts/deps.sh browser
	@python=.venv-browser/bin/python; [ -x $$python ] || python=.venv/bin/python; \
	  $(HERE) $$python $(PYTEST) tests/browser

# Not in "make test": without Slurm or root the tests are skipped, with a word why.
test-slurm: all
	@scripts/deps.sh slurm
	@$(HERE) .venv/bin/python -m pytest -q -rs -p no:cacheprovider tests/slurm

# an OpenBLAS older than the CPU takes it for one without AVX, a tenth as fast
CORETYPE = $(if $(shell grep -m1 -o avx512f /proc/cpuinfo),SkylakeX,Haswell)

oracle: all
	@scripts/deps.sh oracle
	@$(HERE) OPENBLAS_CORETYPE=$(CORETYPE) OMP_NUM_THREADS=1 \
	  .venv-oracle/bin/python $(PYTEST) tests/oracle

bench: all
	@scripts/deps.sh oracle
	@for what in step prompt act sim reward collect; do $(BUILD)/bfm bench $$what; done
	@for program in bench/readers.py bench/reward.py bench/torch_step.py; do $(HERE) .venv-oracle/bin/python $$program; done
	@$(HERE):tests/cli .venv/bin/python bench/serve.py

# ---------------------------------- the rest ------------------------------------------------------

deps:
	@scripts/deps.sh

demo: $(BUILD)/bfm $(BUILD)/libbfm.so
	@BFM=$(BUILD)/bfm BFM_BUILD=$(BUILD) scripts/demo.sh

bundle: all $(filter %/test_cuda,$(UNIT))
	@scripts/bundle.sh $(BUILD)

# the site in build/site; a broken link is an error
docs:
	@scripts/deps.sh docs
	@python3 docs/architecture.py >docs/architecture.svg
	@.venv-docs/bin/python scripts/site.py build/pages
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet
	@echo "build/site/index.html is ready; to search, serve it: python3 -m http.server -d build/site"

format:
	@.venv/bin/python scripts/format.py

format-check:
	@.venv/bin/python scripts/format.py --check

# A file is looked at again when it, a header or the list of checks has changed. One process a file:
# clang-tidy 14 takes every va_list after its first file for uninitialized.
LINT := $(patsubst %.c,build/lint/%,$(LIB_SRC) $(CLI_SRC) $(wildcard examples/*.c tests/unit/*.c))
lint:
	@scripts/deps.sh lint
	@$(MAKE) --no-print-directory lint-clang-tidy lint-cppcheck

lint-clang-tidy: $(LINT)

build/lint/%: %.c .clang-tidy $(wildcard include/*.h src/*/*.h tests/unit/*.h)
	@mkdir -p $(@D)
	$(if $(filter 1,$(V)),,@)clang-tidy --quiet $< -- $(bfm_CPPFLAGS) -DBFM_COMMIT='""' -DOPS_SUM=0u \
	  -std=gnu11 -march=$(ARCH) -fopenmp-simd 2>$@.err || { cat $@.err >&2; exit 1; }
	@touch $@

# Left out: invalidPointerCast, as a row of an option table says of which type its field is;
# unknownEvaluationOrder, which sees two uses of x in {.x = x++}; nullPointerRedundantCheck, which
# does not follow "while ((x = next(x ? … : …)))"; pointerSize, which wants calloc(1, sizeof *x);
# resourceLeak, which does not see that a descriptor plus 1 is kept; duplicateAssignExpression, which
# is about style.
lint-cppcheck:
	@cppcheck --quiet -j $(shell nproc) --std=c11 --error-exitcode=1 --library=gnu \
	  --enable=warning,portability --suppress=invalidPointerCast --suppress=unknownEvaluationOrder \
	  --suppress=nullPointerRedundantCheck --suppress=pointerSize --suppress=resourceLeak \
	  --suppress=duplicateAssignExpression --include=/usr/include/cjson/cJSON.h \
	  -Iinclude -Isrc src examples

# everything that needs no peers
check: format-check
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test

clean:
	rm -rf build build-*

.PHONY: all cuda examples unit deps demo docs test test-unit test-threads test-fuzz test-python test-browser test-slurm fuzz \
        oracle bench bundle format format-check lint lint-clang-tidy lint-cppcheck check clean
