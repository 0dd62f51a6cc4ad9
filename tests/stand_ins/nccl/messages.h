#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "stand_ins/nccl/communicator.h"
#include "stand_ins/nccl/operation.h"
#include "stand_ins/nccl/start.h"

namespace hora::fake_nccl {

/// The sends and receives of one group. Those to one peer, and those from one peer, follow each other; all
/// others go on at once. A message is complete on both sides only when the receiver has all of it.
class Messages {
 public:
  /// Takes the sends and receives among the operations.
  Messages(Communicator& communicator, const std::vector<Operation>& operations);

  /// Goes as far as the peers allow; true when all are complete.
  bool advance();

 private:
  /// The messages of one peer in one direction, with the state of the one that is under way.
  struct Line {
    bool sends;
    int peer;
    std::vector<Operation> operations;
    std::size_t done = 0;
    Start start;
    bool begun = false;
    bool compared = false;
    std::uint64_t moved = 0;  // pieces

    bool complete() const { return done == operations.size(); }
    const Operation& operation() const { return operations[done]; }
  };

  /// False if nothing can be done.
  bool step(Line& line);
  void begin(Line& line);
  bool compare(Line& line);
  bool move_piece(Line& line);
  void copy_piece(const Line& line, std::uint64_t number) const;
  void finish(Line& line);

  Line& line_of(const Operation& operation);
  Channel& channel(const Line& line) const;
  Progress::Line& progress(const Line& line) const;

  Communicator* communicator_;  // outlives the launch
  std::vector<Line> lines_;
};

}  // namespace hora::fake_nccl
