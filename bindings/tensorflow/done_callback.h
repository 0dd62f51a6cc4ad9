#pragma once

#include <functional>

#include "tensorflow_api.h"

namespace hora::tensorflow {

/// Keeps what an asynchronous kernel has to call at its end.
///
/// TensorFlow passes the address of a std::function<void()> and destroys that when the kernel's function
/// returns, so TF_RunAsyncOpKernelDoneCallback is of no use later: it would call what is gone. A copy lives
/// as long as it is needed. That TensorFlow's std::function is ours, which means libstdc++'s, whose layout
/// has not changed since 2009, is checked where the library is opened.
[[nodiscard]] inline std::function<void()> keep(const DoneCallback* callback) {
#if !defined(__GLIBCXX__)
#error "TensorFlow's std::function is that of libstdc++"
#endif
  return *reinterpret_cast<const std::function<void()>*>(callback);
}

}  // namespace hora::tensorflow
