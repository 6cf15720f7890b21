// What the shipped walker does for a few observations. The numbers were computed on x86-64 with AVX2, by
// bfm.h; every processor and the policy runtime must come near them.

#ifndef WALKER_H
#define WALKER_H

#include <stdint.h>

enum { OBS = 24, ACT = 6, D = 64, ROWS = 4 };
#define WALKER_NEAR 1e-5f

// numbers that every processor computes exactly
static inline void walker_observe(float obs[ROWS][OBS]) {
  for (int r = 0; r < ROWS; r++) {
    for (int i = 0; i < OBS; i++) obs[r][i] = (float)((i * 37 + r * 101) % 61 - 30) / 16;
  }
}

// every eighth number of the z of these observations
static const float walker_z[8] = {1.17430043f, -0.37312227f, -0.05607989f, -0.38113993f,
                                  0.54713738f, 0.36363751f,  -1.23667276f, -0.25245991f};

// the actions by the mean, and by the best of samples at step 7 with seed 0
static const struct {
  int es;
  float act[ROWS][ACT];
} walker_cases[] =
    {{0,
      {{-0.3458212f, -0.8501737f, -0.6429930f, -0.3313038f, -0.9023787f, 0.5608938f},
       {0.8207804f, 0.4760731f, 0.6452299f, 0.8936979f, -0.0768217f, -0.7316350f},
       {0.7893037f, 0.5354773f, 0.1303924f, 0.2559472f, 0.7771456f, 0.6593971f},
       {-0.6715198f, -0.2159385f, -0.9054954f, -0.6155620f, -0.4840204f, 0.6708666f}}},
     {16,
      {{-0.3998202f, -1.0000000f, -0.5382794f, -0.2251063f, -0.9288093f, 0.5995315f},
       {1.0000000f, 0.2263703f, 0.5760724f, 0.7465262f, -0.1940901f, -0.6980032f},
       {0.4703044f, 1.0000000f, -0.0386534f, 0.1439174f, 0.8827843f, 0.6359698f},
       {-0.3384092f, -0.1196705f, -0.9489496f, -0.7336193f, -0.6111112f, 0.8433979f}}}};

#endif
