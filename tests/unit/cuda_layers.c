// The operations of layers except products, and parameter updates, on a GPU against the CPU.

#include "cuda_tests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/rng.h"
#include "ops/cpu.h"

// ------------------------------- layers ----------------------------------------------------------

static void bias_grad(int64_t groups, int64_t rows, int64_t cols, int64_t ld) {
  Buffer *db = activations(groups * cols), *dy = activations(groups * rows * ld);
  BOTH(bias_grad, BiasGrad, .db = AT(db), .dy = AT(dy), .groups = groups, .rows = rows,
       .cols = cols, .ld = ld, .stride = rows * ld);
  check("bias_grad", db, tolerance(2e-5));
  forget_buffers();
}

void test_bias_grad(void **state) {
  (void)state;
  bias_grad(2, 1024, 1024, 1024);
  bias_grad(1, 2048, 512, 1024);
  bias_grad(3, 77, 6, 6);
  bias_grad(1, 1, 1, 3);
  bias_grad(40, 33, 520, 528);
}

static void norm(Activation f, int64_t groups, int64_t rows, int64_t stride, int64_t width,
                 int64_t blocks) {
  int64_t all = groups * stride * width;
  Buffer *x = activations(all), *y = activations(all), *dy = activations(all);
  Buffer *stats = f32(groups * stride * blocks * 2);
  Buffer *gain = f32(groups * width), *bias = f32(groups * width);
  Buffer *dgain = activations(groups * width), *dbias = activations(groups * width);
  Buffer *sums = activations(groups * width), *dx = activations(all);
  Buffer *scratch = f32(norm_scratch(groups, rows, width));
  BOTH(norm, Norm, .activation = f, .y = AT(y), .x = AT(x), .stats = AT(stats), .gain = AT(gain),
       .bias = AT(bias), .groups = groups, .rows = rows, .row_stride = stride, .width = width,
       .blocks = blocks);
  check("norm y", y, tolerance(2e-5));
  check("norm stats", stats, 2e-5);
  // both gradients get the CPU's statistics, so that both see the same signs at a ReLU
  void *host = fetch(stats, CPU);
  Buffer *given = raw(host, stats->bytes);
  free(host);
  BOTH(norm_grad, NormGrad, .activation = f, .dx = AT(dx), .dy = AT(dy), .x = AT(x),
       .stats = AT(given), .gain = AT(gain), .bias = AT(bias), .dgain = AT(dgain),
       .dbias = AT(dbias), .sums = AT(sums), .scratch = AT(scratch), .groups = groups, .rows = rows,
       .row_stride = stride, .width = width, .blocks = blocks);
  check("norm_grad dx", dx, tolerance(5e-5));
  check("norm_grad dgain", dgain, tolerance(5e-5));
  check("norm_grad dbias", dbias, tolerance(5e-5));
  check("norm_grad sums", sums, tolerance(2e-4));
  // in place, and without the gradients of the parameters
  BOTH(norm_grad, NormGrad, .activation = f, .dx = AT(dy), .dy = AT(dy), .x = AT(x),
       .stats = AT(given), .gain = AT(gain), .bias = AT(bias), .groups = groups, .rows = rows,
       .row_stride = stride, .width = width, .blocks = blocks);
  check("norm_grad in place", dy, tolerance(5e-5));
  BOTH(norm, Norm, .activation = f, .y = AT(x), .x = AT(x), .stats = AT(stats), .gain = AT(gain),
       .bias = AT(bias), .groups = groups, .rows = rows, .row_stride = stride, .width = width,
       .blocks = blocks, .first_block = blocks / 2, .end_block = blocks);
  check("norm of some blocks, in place", x, tolerance(2e-5));
  forget_buffers();
}

void test_norm(void **state) {
  (void)state;
  static const int64_t shapes[][5] =
      {                                                  // groups, rows, row stride, width, blocks
       {2, 1024, 1024, 1024, 1}, {1, 300, 512, 256, 8},  // as trained
       {40, 67, 70, 1024, 1},    {100, 60, 60, 512, 1}, {150, 70, 71, 256, 8},  // many rows a block
       {1, 19, 19, 1024, 2},     {1, 31, 31, 1024, 64}, {2, 9, 9, 768, 1},      // parts of a row
       {1, 33, 40, 1000, 1},     {2, 21, 21, 320, 1},   {1, 2, 2, 48, 3},      {1, 1, 1, 8, 1},
       {1, 33, 33, 4096, 1},     {2, 17, 17, 960, 5},   {1, 2, 2, 72, 3},  // any width
       {2, 5, 9, 256, 7},        {3, 64, 70, 30, 4},    {2, 11, 11, 1001, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const int64_t *s = shapes[i];
    for (int f = TANH; f <= RELU; f++) norm((Activation)f, s[0], s[1], s[2], s[3], s[4]);
  }
}

void test_moving(void **state) {
  (void)state;
  int64_t G = 3, N = 37;
  Buffer *a = f32(G * N * 24), *b = f32(G * N * 7), *out = activations(G * 2 * 50 * 40);
  BOTH(pack, Pack, .out = AT(out), .ld = 31, .a = AT(a), .b = AT(b), .a_cols = 24, .b_cols = 7,
       .groups = G, .copies = 2, .rows = N, .row0 = 11, .row_stride = 50);
  check_equal("pack", out);
  BOTH(pack, Pack, .out = AT(out), .ld = 40, .a = AT(a), .b = AT(b), .a_cols = 24, .b_cols = 7,
       .groups = G, .copies = 2, .rows = N, .row0 = 11, .row_stride = 50);
  check_equal("pack of padded rows", out);
  BOTH(pack, Pack, .out = AT(out), .ld = 32, .a = AT(b), .b = AT(a), .a_cols = 7, .b_cols = 24,
       .groups = G, .copies = 2, .rows = N, .row0 = 11, .row_stride = 50);
  check_equal("pack of rows that meet within a vector", out);
  BOTH(pack, Pack, .out = AT(out), .ld = 31, .a = AT(a), .b = AT(b), .a_cols = 24, .a_rows = 5,
       .b_cols = 7, .groups = G, .copies = 2, .rows = N, .row_stride = 50);
  check_equal("pack of repeated rows", out);
  BOTH(pack, Pack, .out = AT(out), .ld = 32, .a = AT(a), .b = AT(b), .a_cols = 24, .b_rows = 1,
       .b_cols = 7, .groups = G, .copies = 2, .rows = N, .row_stride = 50);
  check_equal("pack with one row for all", out);
  BOTH(pack, Pack, .out = AT(out), .ld = 24, .a = AT(a), .a_cols = 24, .groups = G, .copies = 1,
       .rows = N, .row_stride = N);
  check_equal("pack of one operand", out);

  // five operations of different sizes in one call
  BOTH(pack, Pack, .out = AT(out), .ld = 24, .a = AT(a), .a_cols = 24, .groups = 1, .copies = 1,
       .rows = 3, .row_stride = 50,
       .next = &(Pack){.out = AT(out), .a = AT(b), .a_cols = 24, .ld = 24, .groups = 2, .copies = 1,
                       .rows = 9, .row0 = 3, .row_stride = 50,
                       .next = &(Pack){.out = AT(out), .a = AT(a), .a_cols = 24, .ld = 24,
                                       .groups = 3, .copies = 1, .rows = N, .row0 = 12,
                                       .row_stride = 50,
                                       .next = &(Pack){.out = AT(out), .a = AT(a), .a_cols = 24,
                                                       .ld = 24, .groups = 1, .copies = 1,
                                                       .rows = 1, .row0 = 160, .row_stride = 50,
                                                       .next = &(Pack){.out = AT(out), .a = AT(b),
                                                                       .a_cols = 7, .b = AT(a),
                                                                       .b_cols = 24, .ld = 31,
                                                                       .groups = 1, .copies = 2,
                                                                       .rows = 9, .row0 = 130,
                                                                       .row_stride = 9}}}});
  check_equal("packs in one call", out);

  for (int wide = 0; wide < 2; wide++) {
    int64_t cols = wide ? 64 : 9, ld_out = wide ? 128 : 21, ld_in = wide ? 96 : 13;
    Buffer *to = activations(G * N * ld_out), *from = activations(G * N * ld_in);
    BOTH(copy_columns, CopyColumns, .out = AT(to), .in = AT(from), .groups = G, .rows = N,
         .cols = cols, .ld_out = ld_out, .ld_in = ld_in, .stride_out = N * ld_out,
         .stride_in = N * ld_in);
    check_equal("copy_columns", to);
  }
  int32_t columns[5] = {23, 0, 7, 7, 11};
  Buffer *index = raw(columns, sizeof columns), *selected = f32(N * 5);
  BOTH(select_columns, SelectColumns, .out = AT(selected), .in = AT(a), .columns = AT(index),
       .rows = N, .in_cols = 24, .out_cols = 5);
  check_equal("select_columns", selected);
  forget_buffers();
}

void test_outputs(void **state) {
  (void)state;
  int64_t N = 133, act = 6;
  Buffer *x = f32(2 * 2 * N * 8), *mu = f32(2 * 2 * N * act);
  Buffer *a = f32(2 * N * act), *noise = f32(2 * N * act);
  BOTH(policy_action, PolicyAction, .mu = AT(mu), .x = AT(x), .act = AT(a), .noise = AT(noise),
       .groups = 2, .rows = N, .row_stride = 2 * N, .act_dim = act, .ld = 8, .sigma = 0.2f,
       .noise_clip = 0.3f);
  check("policy_action mu", mu, 2e-5);
  check("policy_action act", a, 2e-5);

  static const int64_t shapes[][2] = {{64, 8}, {64, 1}, {50, 7}, {512, 64}, {6, 3}, {100, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    int64_t d = shapes[i][0], K = shapes[i][1];
    Buffer *in = f32(N * d), *y = f32(N * d), *dy = f32(N * d);
    BOTH(block_norm, BlockNorm, .y = AT(y), .x = AT(in), .rows = N, .d = d, .blocks = K);
    check("block_norm", y, 2e-5);
    BOTH(block_norm_grad, BlockNormGrad, .dx = AT(dy), .dy = AT(dy), .x = AT(in), .rows = N, .d = d,
         .blocks = K);
    check("block_norm_grad", dy, 5e-5);
    BOTH(residual_norm, ResidualNorm, .y = AT(y), .z = AT(in), .rows = N, .d = d, .blocks = K);
    check("residual_norm", y, 2e-5);
    forget_buffers();
  }
}

// ------------------------------- parameters ------------------------------------------------------

void test_parameters(void **state) {
  (void)state;
  static const int64_t counts[] = {1, 3, 4099, 1 << 20};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    int64_t n = counts[i], step = 41;
    Buffer *param = f32(n), *m = f32(n), *grad = activations(n), *target = f32(n);
    Buffer *copy = activations(n), *target_copy = activations(n);
    float *positive = malloc(n * sizeof *positive);
    uint8_t *kept = malloc(n);
    assert_true(positive && kept);
    for (int64_t j = 0; j < n; j++) {
      positive[j] = random_uniform(4, STREAM_USER, 0, j);
      kept[j] = positive[j] < 0.5f;
    }
    Buffer *v = raw(positive, n * sizeof *positive), *at = raw(&step, sizeof step);
    Buffer *keep = raw(kept, n);
    free(positive);
    free(kept);
    BOTH(adam, Adam, .param = AT(param), .m = AT(m), .v = AT(v), .grad = AT(grad),
         .target = AT(target), .copy = AT(copy), .target_copy = AT(target_copy), .step = AT(at),
         .count = n, .lr = 1e-2f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .tau = 0.01f);
    check("adam", param, 1e-6);
    check("adam m", m, 1e-6);
    check("adam v", v, 1e-6);
    check("adam copy", copy, tolerance(1e-6));
    check("adam target", target, 1e-6);
    check("adam target's copy", target_copy, tolerance(1e-6));
    BOTH(adam, Adam, .param = AT(param), .m = AT(m), .v = AT(v), .grad = AT(grad), .step = AT(at),
         .count = n, .lr = 1e-2f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f);
    check("adam alone", param, 1e-6);

    BOTH(adam, Adam, .param = AT(param), .m = AT(m), .v = AT(v), .grad = AT(grad), .mask = AT(keep),
         .target = AT(target), .copy = AT(copy), .target_copy = AT(target_copy), .step = AT(at),
         .count = n, .lr = 1e-2f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .tau = 0.01f);
    check("adam masked", param, 1e-6);
    check("adam masked m", m, 1e-6);
    check("adam masked v", v, 1e-6);
    check("adam masked copy", copy, tolerance(1e-6));
    check("adam masked target's copy", target_copy, tolerance(1e-6));

    Buffer *in = f32(n), *out = activations(n);
    BOTH(masked_copy, MaskedCopy, .out = AT(out), .in = AT(in), .mask = AT(keep), .count = n);
    check_equal("masked_copy", out);
    BOTH(masked_copy, MaskedCopy, .out = AT(out), .in = AT(in), .count = n);
    check_equal("masked_copy of all", out);
    forget_buffers();
  }
}
