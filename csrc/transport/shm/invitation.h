#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "base/text.h"
#include "transport/shm/layout.h"
#include "transport/wake/greeting.h"

namespace hora {

// What the ranks of a host tell each other before they share memory.

/// Why a rank cannot take part; empty: it can.
class Refusal {
 public:
  Refusal() = default;
  explicit Refusal(const std::string& why) {
    std::ranges::copy(why.substr(0, why_.size() - 1), why_.begin());
  }

  [[nodiscard]] explicit operator bool() const { return why_.front() != 0; }
  [[nodiscard]] std::string text() const { return text_in(why_); }

 private:
  std::array<char, 512> why_{};
};

/// What the leader tells the others over the transport, which strangers cannot read.
struct HostInvitation {
  HostLayout layout;
  std::array<char, 64> listener{};  ///< the name, which every process of the machine can see
  Secret secret{};                  ///< by which the leader knows a rank of the job
  Refusal refusal{};                ///< there is no shared memory, and why

  void name_listener(const std::string& name) {
    std::ranges::copy(name.substr(0, listener.size() - 1), listener.begin());
  }
};

/// What a rank says first on its connection to the leader, and before it is handed anything.
struct HostGreeting {
  Secret secret{};
  std::uint32_t member = 0;
};

}  // namespace hora
