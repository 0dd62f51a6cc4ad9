#pragma once

namespace hora::tensorflow {

/// Makes TensorFlow run the ops of ops.h by this library, on CPUs. Throws Error when it refuses.
void register_kernels();

}  // namespace hora::tensorflow
