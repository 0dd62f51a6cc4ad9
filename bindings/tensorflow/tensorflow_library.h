#pragma once

#include <string>

#include "tensorflow_api.h"

namespace hora::tensorflow {

/// TensorFlow as this process has loaded it.
struct TensorFlowLibrary {
  Api api{};
  std::string problem;  ///< empty, or why it cannot be used
};

[[nodiscard]] TensorFlowLibrary open_tensorflow();

}  // namespace hora::tensorflow
