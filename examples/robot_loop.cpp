// The control loop of robot_loop.c in C++17: 500 times a second, on absolute deadlines.
//
//   robot_loop_cpp small.safetensors z.json [seconds]
//
// z.json comes from bfm prompt -o z.json. Everything is allocated before the loop.

#include <bfm_policy.h>

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "robot.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds tick{2};

void check(bfm_policy_status status, const bfm_policy_error &error) {
  if (status != BFM_POLICY_OK) throw std::runtime_error(error.text);
}

// A model, and the workspace of the thread that acts with it.
class Policy {
 public:
  explicit Policy(const std::string &path) {
    bfm_policy_error error;
    bfm_policy *opened = nullptr;
    check(bfm_policy_open(&opened, path.c_str(), &error), error);
    policy_.reset(opened);
    const std::size_t bytes = bfm_policy_work_bytes(opened, 0);
    memory_.reset(static_cast<std::byte *>(::operator new(bytes, std::align_val_t{64})));
    check(bfm_policy_work_init(&work_, opened, 0, memory_.get(), bytes, &error), error);
  }

  const bfm_policy_info &info() const { return *bfm_policy_get_info(policy_.get()); }

  // whether it failed: then act is the safe action
  bool act(const std::vector<float> &obs, const std::vector<float> &z, std::vector<float> &act,
           bfm_policy_error &error) noexcept {
    return bfm_policy_act(policy_.get(), work_, obs.data(), z.data(), nullptr, act.data(), nullptr,
                          &error) != BFM_POLICY_OK;
  }

 private:
  struct Close {
    void operator()(bfm_policy *policy) const { bfm_policy_close(policy); }
    void operator()(std::byte *bytes) const { ::operator delete(bytes, std::align_val_t{64}); }
  };
  std::unique_ptr<bfm_policy, Close> policy_;
  std::unique_ptr<std::byte, Close> memory_;
  bfm_policy_work *work_ = nullptr;
};

// the numbers of "z": [ … ]
std::vector<float> read_z(const std::string &path, int d) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::size_t at = text.find('[', text.find("\"z\":"));
  std::vector<float> z;
  while (at != std::string::npos && at + 1 < text.size() && static_cast<int>(z.size()) < d) {
    const char *begin = text.c_str() + at + 1;
    char *end = nullptr;
    z.push_back(std::strtof(begin, &end));
    if (end == begin) break;
    at = text.find_first_of(",]", static_cast<std::size_t>(end - text.c_str()));
  }
  const bool complete = at != std::string::npos && text[at] == ']';
  if (!complete || static_cast<int>(z.size()) != d) throw std::runtime_error(path + " is no z of this model");
  return z;
}

// 0.5 for the median, of sorted durations
double milliseconds(const std::vector<Clock::duration> &sorted, double share) {
  const auto at = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1));
  return std::chrono::duration<double, std::milli>(sorted[at]).count();
}

int run(const std::string &model, const std::string &prompt, double seconds) {
  Policy policy(model);
  const bfm_policy_info &info = policy.info();
  const std::vector<float> z = read_z(prompt, info.d);
  std::vector<float> obs(info.obs_dim), act(info.act_dim);
  const std::unique_ptr<Robot, void (*)(Robot *)> robot(
      robot_open(info.env, info.obs_dim, info.act_dim, info.control_dt), robot_close);
  if (!robot) return 1;

  const auto ticks = static_cast<std::size_t>(seconds / std::chrono::duration<double>(tick).count());
  const auto period = std::max<Clock::duration>(
      tick, std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(info.control_dt)));
  std::vector<Clock::duration> late, thinking;
  late.reserve(ticks + 1);
  thinking.reserve(ticks + 1);
  long failures = 0;
  bfm_policy_error error{};

  // as become_real_time of robot_loop.c
  const sched_param priority{80};
  if (mlockall(MCL_CURRENT | MCL_FUTURE) || sched_setscheduler(0, SCHED_FIFO, &priority)) {
    std::puts("no locked memory or real-time priority: other programs can delay a tick");
  }
  Clock::time_point deadline = Clock::now() + tick, due = deadline;
  for (std::size_t i = 0; i < ticks; i++, deadline += tick) {
    std::this_thread::sleep_until(deadline);
    late.push_back(Clock::now() - deadline);
    robot_read(robot.get(), obs.data());
    if (deadline < due) continue;  // the motors hold
    const Clock::time_point begin = Clock::now();
    failures += policy.act(obs, z, act, error);
    thinking.push_back(Clock::now() - begin);
    robot_write(robot.get(), act.data());
    due += period;
  }

  for (auto *durations : {&late, &thinking}) std::sort(durations->begin(), durations->end());
  std::printf("wake-ups late by   %.3f ms (median), %.3f ms (99%%), %.3f ms (worst) of %zu\n",
              milliseconds(late, 0.5), milliseconds(late, 0.99), milliseconds(late, 1), late.size());
  std::printf("actions take       %.3f ms (median), %.3f ms (99%%), %.3f ms (worst) of %zu\n",
              milliseconds(thinking, 0.5), milliseconds(thinking, 0.99), milliseconds(thinking, 1),
              thinking.size());
  if (failures) std::printf("%ld failures, the last: %s\n", failures, error.text);
  return failures > 0;
}

}  // namespace

int main(int argc, char **argv) {
  try {
    if (argc < 3) throw std::runtime_error("name a model and a z: MODEL.safetensors z.json [SECONDS]");
    return run(argv[1], argv[2], argc > 3 ? std::max(0.01, std::atof(argv[3])) : 5);
  } catch (const std::exception &problem) {
    std::fprintf(stderr, "robot_loop_cpp: %s\n", problem.what());
    return 1;
  }
}
