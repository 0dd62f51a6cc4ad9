#pragma once

#include <cstddef>
#include <cstdint>

#include "stand_ins/nccl/communicator.h"
#include "stand_ins/nccl/operation.h"
#include "stand_ins/nccl/start.h"

namespace hora::fake_nccl {

/// One rank's part of a collective. The ranks first show each other their calls and compare them. Then data
/// move in pieces: each rank puts a piece of its own into a slot that all can read, waits until all have done
/// so, makes its part of the result out of all slots, and says that it needs them no more.
class Collective {
 public:
  Collective(Communicator& communicator, const Operation& operation);

  /// Goes as far as the peers allow; true when complete.
  bool advance();

 private:
  void begin();
  bool everyone_came();
  void look_for_deadlock(int peer) const;
  bool pack_next();
  bool unpack_next();
  void pack(std::uint64_t piece) const;
  void unpack(std::uint64_t piece) const;
  void unpack_reduced(std::uint64_t piece, std::size_t first, std::size_t count, std::byte* to) const;

  Communicator& communicator() const { return *communicator_; }
  std::size_t first_of(std::uint64_t piece) const { return piece * elements_; }
  std::size_t count_of(std::uint64_t piece) const;

  Communicator* communicator_;  // outlives the launch
  Operation operation_;
  std::size_t element_;   // bytes
  std::size_t elements_;  // in a piece
  std::uint64_t pieces_;

  Start start_;
  bool begun_ = false;
  bool compared_ = false;
  std::uint64_t packed_ = 0;
  std::uint64_t unpacked_ = 0;
};

}  // namespace hora::fake_nccl
