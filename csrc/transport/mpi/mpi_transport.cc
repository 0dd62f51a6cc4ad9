#include "transport/mpi/mpi_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/mpi/check.h"

namespace hora {
namespace {

constexpr int kControlTag = 0;
constexpr std::byte kMore{0};
constexpr std::byte kLast{1};

MPI_Comm duplicate(MPI_Comm original) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(original, &copy), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}

/// The lowest rank of the host each rank runs on.
std::vector<int> ask_hosts(MPI_Comm communicator, int rank, int size) {
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  int lowest = rank;
  check_mpi(MPI_Bcast(&lowest, 1, MPI_INT, 0, host), "MPI_Bcast");
  MPI_Comm_free(&host);
  std::vector<int> hosts(static_cast<std::size_t>(size));
  check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, hosts.data(), 1, MPI_INT, communicator), "MPI_Allgather");
  return hosts;
}

Topology make_topology(MPI_Comm communicator, const std::vector<int>& host_split) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(communicator, &rank);
  MPI_Comm_size(communicator, &size);
  if (!host_split.empty()) return Topology::split(rank, size, host_split);
  return Topology(rank, ask_hosts(communicator, rank, size));
}

static_assert(sizeof(MPI_Request) <= sizeof(Ticket::value));

Ticket to_ticket(MPI_Request request) {
  Ticket ticket;
  std::memcpy(&ticket.value, &request, sizeof(request));
  return ticket;
}

MPI_Request to_request(Ticket ticket) {
  MPI_Request request;
  std::memcpy(&request, &ticket.value, sizeof(request));
  return request;
}

}  // namespace

MpiTransport::MpiTransport(MPI_Comm members, const std::vector<int>& host_split)
    : control_(duplicate(members)),
      data_(duplicate(control_)),
      topology_(make_topology(control_, host_split)) {
  for (std::size_t slot = 0; slot < kSlots; ++slot) post_receive(slot);
}

MpiTransport::~MpiTransport() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  // What a broken session has left under way refers to memory that may be gone; MPI must not touch it any
  // more. What control messages refer to lives on.
  if (under_way_ > 0) {
    static_cast<void>(frames_.release());
    new std::deque<Sending>(std::move(sending_));
    return;
  }
  for (MPI_Request& request : receiving_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  // Sends to a lost rank may never complete; what they read from lives on with them.
  if (!std::ranges::all_of(sending_, [](Sending& sending) {
        int complete = 0;
        return MPI_Test(&sending.request, &complete, MPI_STATUS_IGNORE) == MPI_SUCCESS && complete != 0;
      })) {
    new std::deque<Sending>(std::move(sending_));
    return;
  }
  MPI_Comm_free(&data_);
  MPI_Comm_free(&control_);
}

void MpiTransport::post(int peer, Bytes message) {
  const std::span<const std::byte> whole(message);
  std::size_t first = 0;
  do {
    const std::size_t length = std::min(kFrameBytes - 1, whole.size() - first);
    const bool is_last = first + length == whole.size();
    Sending& sending = sending_.emplace_back();
    sending.frame.reserve(length + 1);
    sending.frame.push_back(is_last ? kLast : kMore);
    const auto part = whole.subspan(first, length);
    sending.frame.insert(sending.frame.end(), part.begin(), part.end());
    check_mpi(MPI_Isend(sending.frame.data(), static_cast<int>(sending.frame.size()), MPI_BYTE, peer,
                        kControlTag, control_, &sending.request),
              "MPI_Isend");
    first += length;
  } while (first < whole.size());
}

bool MpiTransport::flushed() {
  while (!sending_.empty()) {
    int complete = 0;
    check_mpi(MPI_Test(&sending_.front().request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
    if (complete == 0) return false;
    sending_.pop_front();
  }
  return true;
}

bool MpiTransport::receive(Incoming& incoming) {
  static_cast<void>(flushed());
  for (;;) {
    int complete = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&receiving_[next_slot_], &complete, &status), "MPI_Test");
    if (complete == 0) return false;
    int length = 0;
    MPI_Get_count(&status, MPI_BYTE, &length);
    const std::span<const std::byte> frame((*frames_)[next_slot_].data(), static_cast<std::size_t>(length));
    const bool is_whole = add_frame(status.MPI_SOURCE, frame, incoming);
    post_receive(next_slot_);
    next_slot_ = (next_slot_ + 1) % kSlots;
    if (is_whole) return true;
  }
}

bool MpiTransport::add_frame(int peer, std::span<const std::byte> frame, Incoming& incoming) {
  Bytes& message = partial_[peer];
  message.insert(message.end(), frame.begin() + 1, frame.end());
  if (frame.front() != kLast) return false;
  incoming = {peer, std::exchange(message, {})};
  return true;
}

void MpiTransport::post_receive(std::size_t slot) {
  check_mpi(MPI_Irecv((*frames_)[slot].data(), static_cast<int>(kFrameBytes), MPI_BYTE, MPI_ANY_SOURCE,
                      kControlTag, control_, &receiving_[slot]),
            "MPI_Irecv");
}

Ticket MpiTransport::send(int peer, int tag, std::span<const std::byte> data) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, data_, &request),
            "MPI_Isend");
  ++under_way_;
  return to_ticket(request);
}

Ticket MpiTransport::recv(int peer, int tag, std::span<std::byte> data) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, data_, &request),
            "MPI_Irecv");
  ++under_way_;
  return to_ticket(request);
}

bool MpiTransport::done(Ticket& ticket) {
  if (ticket.value == 0) return true;
  MPI_Request request = to_request(ticket);
  int complete = 0;
  check_mpi(MPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
  if (complete == 0) return false;
  --under_way_;
  return true;
}

}  // namespace hora
