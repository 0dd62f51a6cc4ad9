#include "backends/cuda/image_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/descriptor.h"

namespace hora::cuda {
namespace {

/// Each with all its parents that are missing.
bool make_folders(const std::filesystem::path& folder) {
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return true;
  return make_folders(folder.parent_path()) && (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST);
}

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::uint64_t hash_of(std::span<const std::string_view> texts) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const std::string_view text : texts) {
    for (const char byte : text) add(static_cast<unsigned char>(byte));
    add(0);
  }
  return hash;
}

std::optional<std::vector<std::byte>> read_image(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty() || file.bad()) return std::nullopt;
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return std::vector<std::byte>(begin, begin + bytes.size());
}

bool write_image(const std::string& path, std::span<const std::byte> image) {
  if (!make_folders(std::filesystem::path(path).parent_path())) return false;
  std::string beside = path + ".XXXXXX";
  const Descriptor file(mkstemp(beside.data()));
  if (!file) return false;
  if (write_all(file.get(), image) && std::rename(beside.c_str(), path.c_str()) == 0) return true;
  unlink(beside.c_str());
  return false;
}

}  // namespace hora::cuda
