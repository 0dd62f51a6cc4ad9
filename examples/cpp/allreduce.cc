// Averages a vector over the ranks of a job. Built against an installed hora; see docs/guides/cpp.md.

#include <hora/api/default_session.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

/// Replaces `values` by their average over all ranks.
void average(hora::Session& session, std::vector<float>& values, const std::string& name) {
  auto* const data = reinterpret_cast<std::byte*>(values.data());
  hora::Call call;
  call.op = hora::OpKind::kAllreduce;
  call.reduce = hora::ReduceOp::kAverage;
  call.name = name;
  call.tensors.push_back({{data, {std::ssize(values)}, hora::DType::kFloat32}, data});

  const hora::HandlePtr handle = session.submit(std::move(call));  // returns at once
  while (!session.wait_until(*handle, hora::Clock::now() + std::chrono::seconds(10)))
    std::cerr << "still waiting for " << name << "\n";
  session.release(*handle);
  if (handle->error() != nullptr) throw *handle->error();
}

int main() {
  try {
    hora::init_default_session();
    const auto session = hora::default_session();
    const int rank = session->topology().rank();

    std::vector<float> values(4, static_cast<float>(rank));
    average(*session, values, "values");

    std::ostringstream line;
    line << "rank " << rank << " of " << session->topology().size() << ": average " << values[0] << "\n";
    std::cout << line.str();
    hora::shutdown_default_session();
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
