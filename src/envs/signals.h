// What a policy reads and writes: the numbers of an observation and of an action in their order, with
// names, units and ranges, and the control period. Models carry this as JSON in their metadata, under
// the key SIGNALS_KEY, so that a robot's program can check its own wiring.

#ifndef BFM_ENVS_SIGNALS_H
#define BFM_ENVS_SIGNALS_H

#include <stdint.h>

#include "core/status.h"

#define SIGNALS_KEY "signals"

typedef struct {
  char part[48];     // of the observation, "velocity"; empty for actions
  char name[80];     // "right_hip.v", a name of the reward language where there is one; an actuator
  char unit[24];     // "rad/s", "1" for plain numbers, "" if it is unknown
  double low, high;  // of an action: what −1 and +1 command, in the unit; both 0: unknown
  double mean, std;  // of an observation, over the prompt states; std < 0: unknown
} Signal;

typedef struct {
  double control_dt;         // seconds from one action to the next; 0: unknown
  int obs_count, act_count;  // 0: nothing is known
  Signal *obs, *act;
} Signals;

// the signals of a domain, by its name. On failure, out is empty
int signals_of_domain(Signals *out, const char *domain);
// Sets mean and std of the observations from `count` rows of obs [count, dim]. Signals without names
// become observations with names such as "obs.3".
int signals_measure(Signals *signals, const float *obs, int64_t count, int64_t dim);

// as JSON, which the caller frees; NULL if out of memory
char *signals_to_json(const Signals *signals);
// Reads JSON, which must describe as many numbers as given. On failure, out is empty
int signals_from_json(Signals *out, const char *json, int64_t obs_dim, int64_t act_dim);

void signals_free(Signals *signals);

#endif
