#include <exception>
#include <string>

#include "kernels.h"
#include "ops.h"
#include "status.h"
#include "tensorflow_library.h"

namespace hora::tensorflow {
namespace {

std::string register_all(const TensorFlowLibrary& library) {
  if (!library.problem.empty()) return library.problem;
  try {
    register_ops();
    register_kernels();
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

// TensorFlow takes as a library's ops what is registered while it opens the library, so this is done here
// and at no other time.
const TensorFlowLibrary tensorflow_library = open_tensorflow();
const std::string problem = register_all(tensorflow_library);

}  // namespace

const Api& api() {
  return tensorflow_library.api;
}

}  // namespace hora::tensorflow

/// Why this library's ops are not there, "" when they are.
extern "C" const char* hora_tensorflow_problem() {
  return hora::tensorflow::problem.c_str();
}
