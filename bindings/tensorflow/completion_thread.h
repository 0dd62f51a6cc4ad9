#pragma once

#include <memory>

#include "core/completions.h"

namespace hora::tensorflow {

/// Where running calls report. A thread of its own ends them, because TensorFlow may do any amount of work in
/// there, which neither the thread of the engine nor that of a caller may be kept with. It is started at the
/// first use and ends with the process, since kernels may run as long.
[[nodiscard]] const std::shared_ptr<Completions>& completions();

}  // namespace hora::tensorflow
