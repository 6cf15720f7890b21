# bfm: behavioral foundation models in C.
#   make          build/libbfm.so, build/libbfm.a, build/bfm (and build/libbfm_cuda.so with nvcc)
#   make deps     install everything that is missing
#   make test     unit, command-line and Python tests
#   make oracle   live comparison with PyTorch and dm_control
#   make bench    speeds, as ratios to the peers
#   make SAN=1    address and undefined-behaviour sanitizers, in build-san/

CC ?= gcc
ARCH ?= x86-64-v3
SAN ?= 0
BUILD := $(if $(filter 1,$(SAN)),build-san,build)
PYTHON ?= python3
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))

CFLAGS ?= -O3 -g
CFLAGS += -std=gnu11 -Wall -Wextra -march=$(ARCH) -fPIC -fno-math-errno -fno-trapping-math \
          -fvisibility=hidden -pthread -MMD -MP
CPPFLAGS += -Iinclude -Isrc -I.deps/include $(HDF5_CFLAGS)
HDF5_CFLAGS := $(shell pkg-config --cflags hdf5 2>/dev/null)
HDF5_LIBS := $(shell pkg-config --libs hdf5 2>/dev/null || echo -lhdf5)
LDLIBS := -ldnnl $(HDF5_LIBS) -lcjson -lpng -lz -lm -ldl -pthread
ifeq ($(SAN),1)
CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
endif

LIB_SRC := $(filter-out src/cli/%,$(wildcard src/*/*.c))
CLI_SRC := $(wildcard src/cli/*.c)
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(BUILD)/%.o)

all: $(BUILD)/libbfm.so $(BUILD)/libbfm.a $(BUILD)/bfm

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(BUILD)/libbfm.a: $(LIB_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/libbfm.so: $(LIB_OBJ)
	$(CC) -shared $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/bfm: $(CLI_OBJ) $(BUILD)/libbfm.a
	$(CC) $(LDFLAGS) -o $@ $(CLI_OBJ) $(BUILD)/libbfm.a $(LDLIBS)

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d)

.PHONY: all
