#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "api/session.h"

namespace hora::benchmarks {

/// What the contenders of one cell work on in turn.
struct Buffers {
  /// `bytes` is what each rank puts in; at least one element for each rank where the operation divides it.
  Buffers(OpKind op, std::size_t bytes, int ranks);

  OpKind op;
  int ranks;
  std::vector<float> work;    ///< input; in place also the result
  std::vector<float> output;  ///< of operations that do not work in place
};

/// One blocking call of one contender.
using Timed = std::function<void()>;

struct Contender {
  std::string_view name;
  Timed call;
};

/// hora, raw MPI and the memory bound: that every rank reads and writes its part once.
[[nodiscard]] std::vector<Contender> make_contenders(Session& session, MPI_Comm communicator,
                                                     Buffers& buffers);

}  // namespace hora::benchmarks
