#include "samples.h"

#include "core/topology.h"

namespace hora::fuzz {

Request sample_request(std::uint32_t number) {
  Request request;
  request.key.name = "t" + std::to_string(number);
  request.signature.tensors = {{DType::kFloat32, {static_cast<std::int64_t>(number)}}};
  return request;
}

Cache cache_with_samples() {
  Cache cache(1000);
  for (std::uint32_t id = 1; id <= kSampleTensors; ++id) {
    const Request request = sample_request(id);
    cache.learn(id, request.key, request.signature);
  }
  return cache;
}

Negotiator make_negotiator(int rank) {
  constexpr int kRanks = 5;
  constexpr int kArity = 2;
  NegotiatorOptions options;
  options.fusion = {1000, 4096, {true, false, true, false, false, true}};
  options.cache_capacity = 1000;
  const std::vector<int> one_host{kRanks};
  return {Tree(Topology::split(rank, kRanks, one_host), kArity), options};
}

}  // namespace hora::fuzz
