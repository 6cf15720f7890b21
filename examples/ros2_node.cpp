// A ROS 2 node that acts with a model of bfm. This file shows the shape of such a node; ROS 2 is not a
// dependency of bfm, and neither its build nor its tests compile this file.
//
//   in     /observation  std_msgs/Float32MultiArray   in the order and units of the training data
//          /z            std_msgs/Float32MultiArray   the task: from bfm prompt, on any computer
//   out    /action       std_msgs/Float32MultiArray   numbers from -1 to 1
//          /distance     std_msgs/Float32             how far the observation is from the training data
//
// A timer with the control period of the model acts on the newest observation. An observation that is
// older than three periods stops the robot: it gets the safe action. In CMakeLists.txt:
//
//   find_package(bfm REQUIRED COMPONENTS policy)
//   add_executable(policy_node ros2_node.cpp)
//   ament_target_dependencies(policy_node rclcpp std_msgs)
//   target_link_libraries(policy_node bfm::policy)

#include <bfm_policy.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <new>
#include <rclcpp/rclcpp.hpp>
#include <std_msgs/msg/float32.hpp>
#include <std_msgs/msg/float32_multi_array.hpp>
#include <stdexcept>
#include <string>
#include <vector>

class PolicyNode : public rclcpp::Node {
 public:
  PolicyNode() : Node("bfm_policy") {
    const std::string path = declare_parameter<std::string>("model");
    bfm_policy_error error;
    if (bfm_policy_open(&policy_, path.c_str(), &error)) throw std::runtime_error(error.text);
    const bfm_policy_info &info = *bfm_policy_get_info(policy_);

    const std::size_t bytes = bfm_policy_work_bytes(policy_, 0);
    memory_ = ::operator new(bytes, std::align_val_t{64});
    if (bfm_policy_work_init(&work_, policy_, 0, memory_, bytes, &error)) {
      throw std::runtime_error(error.text);
    }
    action_.data.resize(info.act_dim);
    period_ = std::chrono::duration<double>(info.control_dt > 0 ? info.control_dt : 0.02);

    using Array = std_msgs::msg::Float32MultiArray;
    observations_ = create_subscription<Array>(
        "observation", rclcpp::SensorDataQoS(), [this](const Array &message) {
          if (keep(message.data, obs_, bfm_policy_get_info(policy_)->obs_dim)) measured_ = now();
        });
    prompts_ = create_subscription<Array>(
        "z", rclcpp::QoS(1).transient_local(),
        [this](const Array &message) { keep(message.data, z_, bfm_policy_get_info(policy_)->d); });
    actions_ = create_publisher<Array>("action", 1);
    distances_ = create_publisher<std_msgs::msg::Float32>("distance", 1);
    timer_ = create_wall_timer(period_, [this] { act(); });
  }

  ~PolicyNode() override {
    bfm_policy_close(policy_);
    ::operator delete(memory_, std::align_val_t{64});
  }

 private:
  bool keep(const std::vector<float> &from, std::vector<float> &into, int size) {
    if (static_cast<int>(from.size()) != size) {
      RCLCPP_ERROR_THROTTLE(get_logger(), *get_clock(), 1000, "got %zu numbers instead of %d",
                            from.size(), size);
      return false;
    }
    into = from;
    return true;
  }

  void act() {
    if (obs_.empty() || z_.empty()) return;
    // not finite: the runtime refuses it and gives the safe action
    if ((now() - measured_).seconds() > 3 * period_.count()) obs_[0] = NAN;
    bfm_policy_report report;
    bfm_policy_error error;
    if (bfm_policy_act(policy_, work_, obs_.data(), z_.data(), nullptr, action_.data.data(), &report,
                       &error)) {
      RCLCPP_ERROR_THROTTLE(get_logger(), *get_clock(), 1000, "safe action: %s", error.text);
    }
    actions_->publish(action_);
    std_msgs::msg::Float32 distance;
    distance.data = report.distance;
    distances_->publish(distance);
  }

  bfm_policy *policy_ = nullptr;
  bfm_policy_work *work_ = nullptr;
  void *memory_ = nullptr;
  std::vector<float> obs_, z_;
  std_msgs::msg::Float32MultiArray action_;
  std::chrono::duration<double> period_{};
  rclcpp::Time measured_;
  rclcpp::Subscription<std_msgs::msg::Float32MultiArray>::SharedPtr observations_, prompts_;
  rclcpp::Publisher<std_msgs::msg::Float32MultiArray>::SharedPtr actions_;
  rclcpp::Publisher<std_msgs::msg::Float32>::SharedPtr distances_;
  rclcpp::TimerBase::SharedPtr timer_;
};

int main(int argc, char **argv) {
  rclcpp::init(argc, argv);
  rclcpp::spin(std::make_shared<PolicyNode>());
  rclcpp::shutdown();
}
