#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hora::cuda {

/// A number that texts which differ share only by an improbable accident, the same in every process.
[[nodiscard]] std::uint64_t hash_of(std::span<const std::string_view> texts);

/// The content of a file; nothing when it cannot be read or is empty.
[[nodiscard]] std::optional<std::vector<std::byte>> read_image(const std::string& path);

/// Writes a file beside the path and renames it, so that whoever reads sees all of it or none. Makes missing
/// folders, for this user alone. Says whether it is there now; that it is not costs time only.
bool write_image(const std::string& path, std::span<const std::byte> image);

}  // namespace hora::cuda
