#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hora::cuda {

/// An image with a check sum, as it lies in a file.
[[nodiscard]] std::vector<std::byte> seal(std::span<const std::byte> image);
/// What was sealed; nothing when the bytes are not as they were.
[[nodiscard]] std::optional<std::vector<std::byte>> unseal(std::vector<std::byte> sealed);

/// The image in a file. Nothing when it cannot be read or is damaged, or others than this user may have
/// written it: the driver trusts what it is given.
[[nodiscard]] std::optional<std::vector<std::byte>> read_image(const std::string& path);

/// Writes a file beside the path and renames it, so that whoever reads sees all of it or none. Makes missing
/// folders, for this user alone. Says whether it is there now; that it is not costs time only.
bool write_image(const std::string& path, std::span<const std::byte> image);

}  // namespace hora::cuda
