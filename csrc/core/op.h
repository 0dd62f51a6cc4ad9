#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hora {

/// What a request asks for. The values are part of the wire format and of the Python and C interfaces.
enum class OpKind : std::uint8_t {
  kAllreduce,
  kAllgather,
  kBroadcast,
  kBarrier,
  kAlltoall,
  kReducescatter,
  kJoin,
  kAddProcessSet,
  kRemoveProcessSet,
};

inline constexpr std::array<std::string_view, 9> kOpNames{
    "allreduce",     "allgather", "broadcast",       "barrier",           "alltoall",
    "reducescatter", "join",      "add_process_set", "remove_process_set"};
inline constexpr std::size_t kOpCount = kOpNames.size();

/// How contributions combine; numbered as in Horovod.
enum class ReduceOp : std::uint8_t { kAverage, kSum, kAdasum, kMin, kMax, kProduct };

inline constexpr std::array<std::string_view, 6> kReduceOpNames{"Average", "Sum", "Adasum",
                                                                "Min",     "Max", "Product"};

enum class DeviceKind : std::uint8_t { kHost, kCuda };

inline constexpr std::array<std::string_view, 2> kDeviceNames{"host", "cuda"};

constexpr std::string_view name(OpKind op) {
  return kOpNames[static_cast<std::size_t>(op)];
}
constexpr std::string_view name(ReduceOp op) {
  return kReduceOpNames[static_cast<std::size_t>(op)];
}
constexpr std::string_view name(DeviceKind device) {
  return kDeviceNames[static_cast<std::size_t>(device)];
}

}  // namespace hora
