# bfm: behavioral foundation models in C.
#   make          build/libbfm.so, build/libbfm.a, build/bfm (and build/libbfm_cuda.so with nvcc)
#   make demo     build, and show what bfm does, in a minute
#   make test     unit, fuzz, command-line and Python tests
#   make test-browser   the playground in a browser
#   make test-slurm     the scripts for clusters, on a Slurm of one node (needs root)
#   make oracle   live comparison with PyTorch and dm_control
#   make bench    speeds, as ratios to the peers
#   make install PREFIX=/usr/local DESTDIR=   copy program, libraries, robots, models and manual pages;
#                 make uninstall, with the same arguments, removes them
#   make bench-step   the training step on a CPU beside PyTorch, by size
#   make bundle   bfm and the libraries it needs in one file, for another machine
#   make wheel    a Python wheel with the library and the program in dist; make test-wheel tries it
#   make amalgamation   the policy runtime as one C file and one header, build/bfm_policy.c and .h
#   make docs     the documentation as a searchable site, in build/site
#   make format   lay out the source by .clang-format; format-check only reports
#   make lint     clang-tidy and cppcheck
#   make check    format-check, lint and test: everything short of the oracle
#   make deps     install what is missing; all targets that need it do so themselves
#   make clean    remove what was built (not .deps, .venv)
#   make SAN=1    build with address and undefined-behaviour sanitizers, in build-san/
#   make SAN=thread test-threads   tests of threads with the thread sanitizer, in build-tsan/
#   make CROSS=aarch64-linux-gnu-   build for another processor, in build-aarch64-linux-gnu/;
#                 with test-cross, compare it in an emulator with what runs here
# CC=clang and CFLAGS="-O1 -g" change the compiler and how it optimizes; V=1 shows the commands.

CROSS ?=
# make has values of its own for CC, LD and AR, which name the tools of this machine
TOOL = $(if $(filter default undefined,$(origin $1)),$(CROSS)$2,$($1))
CC := $(call TOOL,CC,gcc)
LD := $(call TOOL,LD,ld)
AR := $(call TOOL,AR,ar)
OBJCOPY := $(call TOOL,OBJCOPY,objcopy)
STRIP := $(call TOOL,STRIP,strip)
CFLAGS ?= -O3 -g
# the processor that is built for: x86_64, aarch64, arm
MACHINE := $(firstword $(subst -, ,$(or $(shell $(CC) -dumpmachine 2>/dev/null),$(CROSS))))
ARCH_OF_x86_64 := x86-64-v3
ARCH_OF_aarch64 := armv8-a
ARCH_OF_arm := armv7-a+neon-vfpv4
ARCH ?= $(or $(ARCH_OF_$(MACHINE)),native)
SAN ?= 0
V ?= 0
BUILD ?= build$(CROSS:%-=-%)$(if $(filter 1,$(SAN)),-san)$(if $(filter thread,$(SAN)),-tsan)
NVCC ?= $(if $(CROSS),,$(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null)))
# whether make only says what it would do, as completion in a shell asks
DRY := $(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
MAKEFLAGS += --no-builtin-rules
ifeq ($(MAKELEVEL)$(findstring -j,$(MAKEFLAGS)),0)
MAKEFLAGS += --jobs=$(shell nproc)
endif
# the file a command makes, or with V=1 the command itself
SAY = $(if $(filter 1,$(V)),,@echo "  $@";)

all:

# The libraries of another processor lie in a folder laid out like /, below .deps; its programs run in
# an emulator.
DEPS := .deps$(if $(CROSS),/$(MACHINE))
PKG_CONFIG ?= $(if $(CROSS),PKG_CONFIG_SYSROOT_DIR=$(DEPS) \
  PKG_CONFIG_LIBDIR=$(DEPS)/usr/lib/$(CROSS:%-=%)/pkgconfig) pkg-config
ifneq ($(CROSS),)
SYSROOT := $(if $(wildcard $(DEPS)/usr/lib),--sysroot=$(DEPS))
RUNNER ?= qemu-$(MACHINE) -L $(if $(SYSROOT),$(DEPS),/usr/$(CROSS:%-=%))
endif

# Make reads this empty file like a part of the Makefile: where it is missing or old, make runs its
# rule first and then starts again, so that the lines below see what was installed.
ifneq ($(filter-out deps clean docs uninstall,$(or $(MAKECMDGOALS),all)),)
ifeq ($(DRY),)
include .deps/ready $(if $(CROSS),$(DEPS)/ready)
endif
endif
MUJOCO := .deps/lib/libmujoco.so
.deps/ready: scripts/deps.sh scripts/models.py .venv/bin/python $(MUJOCO)
	@scripts/deps.sh
.venv/bin/python $(MUJOCO): ;
.deps/%/ready: scripts/deps.sh scripts/models.py
	@scripts/deps.sh $*

HDF5_CFLAGS := $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags hdf5 2>/dev/null))
HDF5_LIBS := $(shell $(PKG_CONFIG) --libs hdf5 2>/dev/null || echo -lhdf5)

bfm_CPPFLAGS := -Iinclude -Isrc -isystem $(DEPS)/include $(HDF5_CFLAGS) $(CPPFLAGS)
# clang warns where sanitizers keep it from a wanted vectorization; gcc does not know the warning
bfm_CFLAGS := -std=gnu11 -Wall -Wextra -Wno-pass-failed $(SYSROOT) -march=$(ARCH) -fPIC \
              -fno-math-errno -fno-trapping-math -fopenmp-simd -fvisibility=hidden -pthread -MMD -MP $(CFLAGS)
# in a bundle the libraries lie in lib, in the checkout in .deps/lib, which is found from the place
# of the program: no path of the machine that built it
CHECKOUT := $(shell realpath -m --relative-to=$(BUILD) .)
RPATH = $$ORIGIN/lib:$$ORIGIN/$(UP)$(CHECKOUT)/$(DEPS)/lib
# private: a library that is made for a test keeps its own
$(BUILD)/tests/%: private UP := ../../
# an rpath of the old kind also serves the libraries that lie beside those found by it
bfm_LDFLAGS = -Wl,--disable-new-dtags,-rpath,'$(RPATH)' -L$(DEPS)/lib $(SYSROOT) $(SANITIZE) $(LDFLAGS)
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
VERSION := $(MAJOR).$(MINOR).$(call VERSION_PART,PATCH)
SERIES := $(MAJOR)$(if $(filter 0,$(MAJOR)),.$(MINOR))
SONAME := libbfm.so.$(SERIES)
LIBRARY := $(BUILD)/libbfm.so.$(VERSION)

# installed, the library of MuJoCo lies in $(LIBDIR)/bfm
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INSTALLED_LIBRARY := $(BUILD)/install/$(notdir $(LIBRARY))
$(INSTALLED_LIBRARY): RPATH = $$ORIGIN/bfm
$(BUILD)/install/bfm: RPATH = $$ORIGIN/$(shell realpath -m --relative-to=$(PREFIX)/bin $(LIBDIR))/bfm

# the library ends with src/train; the rest is the program
PROGRAM := view learn serve sweep paper cli
CLI_SRC := $(foreach folder,$(PROGRAM),$(wildcard src/$(folder)/*.c))
LIB_SRC := $(filter-out $(CLI_SRC),$(wildcard src/*/*.c))
CUDA_SRC := $(wildcard src/ops/*.cu)
# these are compiled a second time for AVX-512; the program chooses when it starts
WIDE := $(if $(findstring x86_64,$(shell $(CC) -dumpmachine)),src/ops/cpu_gemm src/ops/cpu_layers)
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o) $(WIDE:%=$(BUILD)/%.wide.o)
CLI_OBJ := $(CLI_SRC:%.c=$(BUILD)/%.o)
CUDA_OBJ := $(CUDA_SRC:%.cu=$(BUILD)/%.cu.o)
CUDA_TESTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/unit/cuda_*.c))
UNIT := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
# with a C++ compiler, also in C++
CXX := $(call TOOL,CXX,g++)
EXAMPLES := $(addprefix $(BUILD)/examples/,walker robot_loop \
  $(if $(shell command -v $(CXX) 2>/dev/null),robot_loop_cpp))
FUZZ := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))

# 32-bit ARM gets the policy runtime alone
ifeq ($(MACHINE),arm)
all: policy
else
all: $(BUILD)/libbfm.so $(BUILD)/libbfm.a $(BUILD)/bfm policy $(if $(NVCC),$(if $(CUDA_SRC),cuda))
endif

# ---------------------------------- build ---------------------------------------------------------

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(SAY) $(CC) $(bfm_CPPFLAGS) $(bfm_CFLAGS) -c $< -o $@

$(BUILD)/%.wide.o: %.c
	@mkdir -p $(@D)
	$(SAY) $(CC) $(bfm_CPPFLAGS) -DCPU_WIDE $(bfm_CFLAGS) -march=x86-64-v4 \
	  -mprefer-vector-width=512 -c $< -o $@

# results say which commit made them, and whether files differed from it
COMMIT := $(shell git -c safe.directory='*' describe --always --dirty 2>/dev/null)
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
	$(SAY) $(LD) -r -o $(@:.a=.o) $^ && $(OBJCOPY) --localize-hidden $(@:.a=.o) && $(AR) rcs $@ $(@:.a=.o)

$(BUILD)/objects.a: $(LIB_OBJ)
	@rm -f $@
	$(SAY) $(AR) rcs $@ $^

$(LIBRARY) $(INSTALLED_LIBRARY): $(LIB_OBJ)
	@mkdir -p $(@D)
	$(SAY) $(CC) -shared -Wl,-soname,$(SONAME) $(bfm_LDFLAGS) -o $@ $^ $(LDLIBS)

# the names that the loader and the linker look for
$(BUILD)/libbfm.so $(BUILD)/libbfm_policy.so: %: %.$(VERSION)
	@ln -sf $(<F) $@.$(SERIES) && ln -sf $(@F).$(SERIES) $@

$(BUILD)/bfm $(BUILD)/install/bfm: $(CLI_OBJ) $(BUILD)/objects.a
	@mkdir -p $(@D)
	$(SAY) $(CC) $(bfm_LDFLAGS) -o $@ $^ -lwebsockets $(LDLIBS)

# they contain these files
$(BUILD)/src/envs/domain.o: $(wildcard robots/*.yaml)
$(BUILD)/src/serve/page.o: $(wildcard web/*) .deps/web/three.js
.deps/web/three.js: ;

# ---------------------------------- the policy runtime --------------------------------------------

# one file for all compilers: every function carries the instructions that it may use
POLICY_SRC := $(wildcard src/policy/*.[ch]) include/bfm_policy.h
amalgamation: $(BUILD)/bfm_policy.c

$(BUILD)/bfm_policy.c: scripts/amalgamate.py $(POLICY_SRC) include/bfm.h
	$(SAY) python3 scripts/amalgamate.py $(BUILD)

$(BUILD)/bfm_policy.o: $(BUILD)/bfm_policy.c
	$(SAY) $(CC) $(SYSROOT) -std=c99 -pedantic -Wall -Wextra -O2 -fPIC -fno-asynchronous-unwind-tables \
	  $(SANITIZE) -c $< -o $@

$(BUILD)/libbfm_policy.a: $(BUILD)/bfm_policy.o
	@rm -f $@
	$(SAY) $(AR) rcs $@ $^

$(BUILD)/libbfm_policy.so.$(VERSION): $(BUILD)/bfm_policy.o
	$(SAY) $(CC) $(SYSROOT) -shared -Wl,-soname,libbfm_policy.so.$(SERIES) $(SANITIZE) -o $@ $^ -lm

policy: $(BUILD)/libbfm_policy.a $(BUILD)/libbfm_policy.so

# as a user's own program is linked
USER_LIBRARY = -L$(BUILD) -lbfm $(SYSROOT) -Wl,-rpath,'$$ORIGIN/..',-rpath-link,$(DEPS)/lib
USER_FLAGS := -O2 -Wall -Wextra $(SYSROOT) -Iinclude $(SANITIZE)
$(BUILD)/examples/%: examples/%.c $(BUILD)/libbfm.so
	@mkdir -p $(@D)
	$(SAY) $(CC) $(USER_FLAGS) $< -o $@ $(USER_LIBRARY)

# the loop of a robot and, in another file, its robot, which on a real one is yours
$(BUILD)/examples/%.o: examples/%.c include/bfm.h examples/robot.h
	@mkdir -p $(@D)
	$(SAY) $(CC) $(USER_FLAGS) -c $< -o $@

$(BUILD)/examples/robot_loop: $(BUILD)/examples/robot_simulated.o $(BUILD)/libbfm_policy.so
$(BUILD)/examples/robot_loop: examples/robot_loop.c $(BUILD)/libbfm.so
	$(SAY) $(CC) $(USER_FLAGS) $(filter %.c %.o,$^) -o $@ $(USER_LIBRARY) -lbfm_policy

$(BUILD)/examples/robot_loop_cpp: $(BUILD)/examples/robot_simulated.o $(BUILD)/libbfm_policy.so
$(BUILD)/examples/robot_loop_cpp: examples/robot_loop.cpp $(BUILD)/libbfm.so
	$(SAY) $(CXX) -std=c++17 $(USER_FLAGS) $(filter %.cpp %.o,$^) -o $@ $(USER_LIBRARY) -lbfm_policy

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
      if $(RUNNER) $$program $$arguments >$$log 2>&1; then echo "ok    $$program"; \
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
THREADED := collect crew evaluate interface outbox policy_safety reward robot_file sim stage threads
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

# The policy runtime alone: no library of another processor is needed.
$(BUILD)/tests/processors/policy: tests/processors/policy.c tests/processors/walker.h $(BUILD)/libbfm_policy.a
	@mkdir -p $(@D)
	$(SAY) $(CC) $(USER_FLAGS) $< -o $@ $(BUILD)/libbfm_policy.a -lm

# What CROSS= has built, in an emulator: the same actions, prompts and returns as on this machine.
ifeq ($(MACHINE),arm)
test-cross: policy $(BUILD)/tests/processors/policy.run
else
test-cross: all $(BUILD)/tests/processors/policy.run $(BUILD)/tests/unit/test_processors.run
test-cross: $(patsubst %.c,$(BUILD)/%.run,$(wildcard tests/unit/test_policy*.c))
	@[ -x build/bfm ] || { echo "build bfm for this machine first: make" >&2; exit 1; }
	@BFM=build/bfm BFM_OTHER='$(RUNNER) $(BUILD)/bfm' .venv/bin/python $(PYTEST) tests/processors
endif

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

# the training step on a CPU beside a current PyTorch, and its cost by size; half an hour
bench-step: all
	@scripts/deps.sh bench
	@$(HERE) .venv-bench/bin/python bench/small_step.py
	@$(HERE) .venv-bench/bin/python bench/step_costs.py

# ---------------------------------- the rest ------------------------------------------------------

deps:
	@scripts/deps.sh

demo: $(BUILD)/bfm $(BUILD)/libbfm.so
	@BFM=$(BUILD)/bfm BFM_BUILD=$(BUILD) scripts/demo.sh

bundle: all $(filter %/test_cuda,$(UNIT))
	@scripts/bundle.sh $(BUILD)

# In a wheel, MuJoCo lies in a wheel of its own beside the package, and HDF5 is part of the library and
# of the program: the shared HDF5 of the distribution needs curl, OpenSSL and Kerberos, for files on
# servers. Linked from its archive, only what bfm uses is there, under names that no one else sees.
WHEEL := $(BUILD)/wheel
HDF5_ARCHIVE := $(firstword $(wildcard $(patsubst -L%,%/libhdf5.a,$(filter -L%,$(HDF5_LIBS)))))
WHEEL_LIBS := $(filter-out $(HDF5_LIBS),$(LDLIBS)) -lsz
WHEEL_LDFLAGS = -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/$(1)' -L.deps/lib $(LDFLAGS)
HDF5_RENAMED := $(foreach name,stderr stdout environ,--redefine-sym $(name)=hdf5_$(name))

$(WHEEL)/hdf5.a: $(HDF5_ARCHIVE)
	@[ -e '$<' ] || { echo "wheel: HDF5 has no libhdf5.a here: install libhdf5-dev" >&2; exit 1; }
	@mkdir -p $(@D) && echo '$<' >$(@D)/hdf5.path
	$(SAY) $(OBJCOPY) $(HDF5_RENAMED) $< $@

$(WHEEL)/library.o: $(LIB_OBJ) $(BUILD)/scripts/wheel/hdf5_streams.o $(WHEEL)/hdf5.a
	$(SAY) $(LD) -r -o $@ $^ && $(OBJCOPY) --wildcard --keep-global-symbol='bfm_*' $@

$(WHEEL)/libbfm.so: $(WHEEL)/library.o
	$(SAY) $(CC) -shared -Wl,-soname,$(SONAME) $(call WHEEL_LDFLAGS,../mujoco) -o $@ $^ $(WHEEL_LIBS)

$(WHEEL)/bfm: $(CLI_OBJ) $(BUILD)/objects.a $(HDF5_ARCHIVE)
	@mkdir -p $(@D)
	$(SAY) $(CC) $(call WHEEL_LDFLAGS,../../mujoco) -o $@ $^ -lwebsockets $(WHEEL_LIBS)

wheel: $(WHEEL)/libbfm.so $(WHEEL)/bfm $(BUILD)/bfm
	@scripts/deps.sh wheel
	@scripts/wheel.sh $(BUILD)

# in an empty environment, into which pip downloads MuJoCo and numpy
test-wheel: wheel
	@.venv/bin/python -m pytest -q -p no:cacheprovider tests/wheel

install: all $(BUILD)/install/bfm $(INSTALLED_LIBRARY)
install uninstall:
	@BUILD='$(BUILD)' DEPS='$(DEPS)' PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' \
	  VERSION=$(VERSION) SERIES=$(SERIES) LIBS='$(patsubst -L$(DEPS)/%,-L/%,$(LDLIBS))' STRIP='$(STRIP)' RUNNER='$(RUNNER)' \
	  scripts/install.sh $(filter uninstall,$@)

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
	rm -rf build build-* dist

.PHONY: all cuda amalgamation policy examples unit deps demo docs test test-unit test-threads test-fuzz \
        test-python test-browser test-slurm test-cross test-wheel fuzz oracle bench bench-step bundle wheel install uninstall \
        format format-check lint lint-clang-tidy lint-cppcheck check clean
