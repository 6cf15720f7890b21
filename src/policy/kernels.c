// The kernels of every instruction set that this compiler knows, and the choice among them at run
// time. Each function carries the instructions that it may use, so one compilation without options
// serves all machines.

#include "policy/policy.h"

// bias, scale and activation of `count` sums of one row, from column `at` on
static inline void policy_finish(const PolicyProduct *p, int row, int at, int count,
                                 const float *sums) {
  const PolicyLinear *l = p->layer;
  const float *bias = l->bias + (size_t)p->member * l->bias_stride + at;
  const float *scale = l->scale ? l->scale + (size_t)p->member * l->scale_stride + at : NULL;
  float *y = p->y + (size_t)row * p->ldy + at;
  for (int i = 0; i < count; i++) {
    float value = (scale ? sums[i] * scale[i] : sums[i]) + bias[i];
    y[i] = p->relu && value < 0 ? 0 : value;  // NaN stays NaN
  }
}

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define INLINE static inline __attribute__((always_inline))
#define NO_INLINE __attribute__((noinline))
#elif defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 24")
#define INLINE static inline __attribute__((always_inline))
#define NO_INLINE __attribute__((noinline))
#else
#define UNROLL
#define NO_INLINE
#define INLINE static inline
#endif

// ------------------------------- plain C ---------------------------------------------------------

#define ISA plain
#define NAME "plain"
#define LANE INLINE
#define KERNEL static
static int works_plain(void) { return 1; }
#include "policy/lanes_plain.h"
#include "policy/kernel.h"

// ------------------------------- x86 -------------------------------------------------------------

#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#include <immintrin.h>
#define POLICY_X86 1

#define ISA avx2
#define NAME "avx2"
#define LANE INLINE __attribute__((target("avx2,fma")))
#define KERNEL static __attribute__((target("avx2,fma")))
static int works_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#include "policy/lanes_avx2.h"
#include "policy/kernel.h"

// g++ 12 takes its own header for careless: the registers that _mm512_undefined_ps leaves open
#if defined(__cplusplus) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define ISA avx512
#define NAME "avx512"
#define LANE INLINE __attribute__((target("avx512f,avx2,fma")))
#define KERNEL static __attribute__((target("avx512f,avx2,fma")))
static int works_avx512(void) { return __builtin_cpu_supports("avx512f") && works_avx2(); }
#include "policy/lanes_avx512.h"
#include "policy/kernel.h"
#endif

// ------------------------------- ARM -------------------------------------------------------------

#if defined(__aarch64__) && defined(__ARM_NEON) && defined(__GNUC__)
#include <arm_neon.h>
#define POLICY_NEON 1
#define ISA neon
#define NAME "neon"
#define LANE INLINE
#define KERNEL static
static int works_neon(void) { return 1; }  // every 64-bit ARM has it
#include "policy/lanes_neon.h"
#include "policy/kernel.h"
#endif

// ------------------------------- choosing --------------------------------------------------------

// the fastest first
static const PolicyKernels *const all_kernels[] = {
#ifdef POLICY_X86
    &kernels_avx512, &kernels_avx2,
#endif
#ifdef POLICY_NEON
    &kernels_neon,
#endif
    &kernels_plain,  NULL,
};

POLICY_INTERNAL const PolicyKernels *policy_kernels(const char *name) {
#ifdef POLICY_X86
  __builtin_cpu_init();
#endif
  for (int i = 0; all_kernels[i]; i++) {
    if (name && strcmp(name, all_kernels[i]->name)) continue;
    if (all_kernels[i]->works()) return all_kernels[i];
  }
  return NULL;
}

// ------------------------------- floating point --------------------------------------------------

#if defined(POLICY_X86) && defined(__SSE__)
POLICY_INTERNAL uint64_t policy_float_begin(void) {
  unsigned before = _mm_getcsr();
  _mm_setcsr(0x9fc0);  // flush results and operands to zero, no exceptions, round to nearest
  return before;
}

POLICY_INTERNAL void policy_float_end(uint64_t before) { _mm_setcsr((unsigned)before); }
#elif defined(__aarch64__) && defined(__GNUC__)
POLICY_INTERNAL uint64_t policy_float_begin(void) {
  uint64_t before, flush = (uint64_t)1 << 24;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(before));
  __asm__ __volatile__("msr fpcr, %0" : : "r"(flush));
  return before;
}

POLICY_INTERNAL void policy_float_end(uint64_t before) {
  __asm__ __volatile__("msr fpcr, %0" : : "r"(before));
}
#else
POLICY_INTERNAL uint64_t policy_float_begin(void) { return 0; }
POLICY_INTERNAL void policy_float_end(uint64_t before) { (void)before; }
#endif
