#include "support/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "support/tensor.h"

namespace hora::testing {
namespace {

double combine(ReduceOp op, double left, double right) {
  switch (op) {
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
      return left + right;
    case ReduceOp::kMin:
      return std::isnan(left) || std::isnan(right) ? NAN : std::min(left, right);
    case ReduceOp::kMax:
      return std::isnan(left) || std::isnan(right) ? NAN : std::max(left, right);
    case ReduceOp::kProduct:
      return left * right;
    case ReduceOp::kAdasum:
      break;
  }
  throw std::logic_error("no reference");
}

double logical(ReduceOp op, std::span<const double> contributions) {
  const bool is_or = op == ReduceOp::kSum || op == ReduceOp::kMax;
  const auto is_true = [](double value) { return value != 0; };
  return is_or ? std::ranges::any_of(contributions, is_true) : std::ranges::all_of(contributions, is_true);
}

/// Truncated toward zero; beyond the range of the type its nearest value.
double scaled_integer(DType dtype, double value, double factor) {
  if (factor == 1.0) return value;
  const bool is_unsigned = dtype == DType::kUInt8;
  const int bits = static_cast<int>(8 * size_of(dtype)) - (is_unsigned ? 0 : 1);
  const double highest = std::ldexp(1.0, bits) - 1;
  return std::clamp(std::trunc(value * factor), is_unsigned ? 0.0 : -highest - 1, highest);
}

double wrapped(DType dtype, ReduceOp op, double left, double right) {
  const auto a = static_cast<std::uint64_t>(static_cast<std::int64_t>(left));
  const auto b = static_cast<std::uint64_t>(static_cast<std::int64_t>(right));
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) return combine(op, left, right);
  const std::uint64_t result = op == ReduceOp::kProduct ? a * b : a + b;
  return stored(dtype, static_cast<double>(static_cast<std::int64_t>(result)));
}

double reduced_integer(DType dtype, ReduceOp op, std::span<const double> contributions, Factors factors) {
  double result = scaled_integer(dtype, contributions[0], factors.prescale);
  for (const double value : contributions.subspan(1))
    result = wrapped(dtype, op, result, scaled_integer(dtype, value, factors.prescale));
  if (op == ReduceOp::kAverage) result = std::trunc(result / static_cast<double>(contributions.size()));
  return scaled_integer(dtype, result, factors.postscale);
}

}  // namespace

double reduced(DType dtype, ReduceOp op, std::span<const double> contributions, Factors factors) {
  if (dtype == DType::kBool) return logical(op, contributions);
  if (!info(dtype).is_floating) return reduced_integer(dtype, op, contributions, factors);
  double result = contributions[0] * factors.prescale;
  for (const double value : contributions.subspan(1)) result = combine(op, result, value * factors.prescale);
  if (op == ReduceOp::kAverage) result /= static_cast<double>(contributions.size());
  return result * factors.postscale;
}

bool close_enough(DType dtype, double got, double expected) {
  if (std::isnan(expected)) return std::isnan(got);
  if (got == expected) return true;
  if (!info(dtype).is_floating) return false;
  const double accumulation_unit = dtype == DType::kFloat64 ? 0x1p-52 : 0x1p-23;  // of a number from 1 to 2
  double unit = accumulation_unit;
  if (dtype == DType::kFloat16) unit = 0x1p-10;
  if (dtype == DType::kBFloat16) unit = 0x1p-7;
  return std::abs(got - expected) <= 2 * unit * std::abs(expected) + 64 * accumulation_unit;
}

}  // namespace hora::testing
