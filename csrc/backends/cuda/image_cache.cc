#include "backends/cuda/image_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/hash.h"

namespace hora::cuda {
namespace {

/// Each with all its parents that are missing.
bool make_folders(const std::filesystem::path& folder) {
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return true;
  return make_folders(folder.parent_path()) && (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST);
}

bool read_all(int descriptor, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = read(descriptor, bytes.data(), bytes.size());
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

/// Written by this user, and by nobody else.
bool is_own(const struct stat& file) {
  return S_ISREG(file.st_mode) && file.st_uid == geteuid() && (file.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::uint64_t sum_of(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return hash_of({&text, 1});
}

}  // namespace

std::vector<std::byte> seal(std::span<const std::byte> image) {
  std::vector<std::byte> sealed(image.begin(), image.end());
  const std::uint64_t sum = sum_of(image);
  const auto bytes = std::as_bytes(std::span(&sum, 1));
  sealed.insert(sealed.end(), bytes.begin(), bytes.end());
  return sealed;
}

std::optional<std::vector<std::byte>> unseal(std::vector<std::byte> sealed) {
  std::uint64_t sum = 0;
  if (sealed.size() <= sizeof(sum)) return std::nullopt;
  const std::size_t length = sealed.size() - sizeof(sum);
  std::memcpy(&sum, sealed.data() + length, sizeof(sum));
  sealed.resize(length);
  if (sum_of(sealed) != sum) return std::nullopt;
  return sealed;
}

std::optional<std::vector<std::byte>> read_image(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about{};
  if (!file || fstat(file.get(), &about) != 0 || !is_own(about)) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<std::size_t>(about.st_size));
  if (!read_all(file.get(), bytes)) return std::nullopt;
  return unseal(std::move(bytes));
}

bool write_image(const std::string& path, std::span<const std::byte> image) {
  if (!make_folders(std::filesystem::path(path).parent_path())) return false;
  std::string beside = path + ".XXXXXX";
  const Descriptor file(mkstemp(beside.data()));
  if (!file) return false;
  if (write_all(file.get(), seal(image)) && std::rename(beside.c_str(), path.c_str()) == 0) return true;
  unlink(beside.c_str());
  return false;
}

}  // namespace hora::cuda
