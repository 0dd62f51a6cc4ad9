#include "scaling/ranks.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "base/clock.h"
#include "bounds/bounds.h"

namespace hora::benchmarks {
namespace {

constexpr MPI_Aint kPageBytes = 4096;
constexpr int kRoundTrips = 200;

}  // namespace

Ranks::Ranks() {
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator_);
  MPI_Comm_rank(communicator_, &rank_);
  MPI_Comm_size(communicator_, &size_);
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(communicator_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host);
  int on_host = 0;
  MPI_Comm_size(host, &on_host);
  if (on_host == size_) {
    MPI_Win_allocate_shared(rank_ == 0 ? kPageBytes : 0, 1, MPI_INFO_NULL, host, &shared_, &window_);
    MPI_Aint bytes = 0;
    int unit = 0;
    MPI_Win_shared_query(window_, 0, &bytes, &unit, &shared_);
    if (rank_ == 0) std::memset(shared_, 0, static_cast<std::size_t>(bytes));
  }
  MPI_Comm_free(&host);
  barrier();
}

Ranks::~Ranks() {
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
  MPI_Comm_free(&communicator_);
}

void Ranks::barrier() const {
  MPI_Barrier(communicator_);
}

std::vector<double> Ranks::largest(std::vector<double> values) const {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX,
                communicator_);
  return values;
}

double Ranks::one_way_us() const {
  double result = std::numeric_limits<double>::quiet_NaN();
  if (size_ > 1 && shared_ != nullptr && rank_ < 2)
    result = hora_bench_one_way_us(shared_, rank_, kRoundTrips);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&result, 1, MPI_DOUBLE, 0, communicator_, &request);
  for (int complete = 0; complete == 0; std::this_thread::sleep_for(std::chrono::microseconds(200)))
    MPI_Test(&request, &complete, MPI_STATUS_IGNORE);
  return result;
}

}  // namespace hora::benchmarks
