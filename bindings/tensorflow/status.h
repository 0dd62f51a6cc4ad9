#pragma once

#include <exception>
#include <memory>
#include <type_traits>

#include "tensorflow_api.h"

namespace hora::tensorflow {

/// The functions of the TensorFlow that was found when this library was loaded.
[[nodiscard]] const Api& api();

using StatusPtr = std::unique_ptr<Status, void (*)(Status*)>;

[[nodiscard]] StatusPtr make_status();
/// What TensorFlow raises in Python for an error of ours.
[[nodiscard]] StatusPtr to_status(const std::exception& error);

/// Throws Error(kInvalidArgument) with TensorFlow's words.
void require_ok(const Status& status);

/// Calls a function of TensorFlow whose last argument is a status, and throws what that says.
template <typename Function, typename... Args>
auto checked(Function function, Args... args) {
  const StatusPtr status = make_status();
  if constexpr (std::is_void_v<decltype(function(args..., status.get()))>) {
    function(args..., status.get());
    require_ok(*status);
  } else {
    const auto result = function(args..., status.get());
    require_ok(*status);
    return result;
  }
}

}  // namespace hora::tensorflow
