#include "transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/open_files.h"

namespace hora {
namespace {

Descriptor make_file(const std::string& directory) {
  if (directory.empty()) {
    Descriptor file(memfd_create("hora", MFD_CLOEXEC));
    if (!file) raise(ErrorKind::kStartup, "shared memory cannot be made: {}", describe_error(errno));
    return file;
  }
  Descriptor file(open(directory.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600));
  if (!file)
    raise(ErrorKind::kStartup, "shared memory cannot be made in {}: {}", directory, describe_error(errno));
  return file;
}

/// The kernel kills a process that goes past this limit.
void check_file_limit(std::size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes)
    return;
  raise(ErrorKind::kStartup,
        "shared memory of {} bytes is larger than files may be here, {} bytes (ulimit -f)", bytes,
        limit.rlim_cur);
}

std::uint64_t free_bytes(int file) {
  struct statvfs system{};
  if (fstatvfs(file, &system) == 0 && system.f_blocks != 0)
    return std::uint64_t{system.f_bavail} * system.f_frsize;
  struct sysinfo machine{};
  return sysinfo(&machine) == 0 ? std::uint64_t{machine.freeram} * machine.mem_unit : 0;
}

}  // namespace

Segment Segment::create(std::size_t bytes, const std::string& directory) {
  check_file_limit(bytes);
  Descriptor file = make_file(directory);
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    raise(ErrorKind::kStartup, "shared memory cannot have {} bytes: {}", bytes, std::strerror(errno));
  return open(std::move(file), bytes);
}

Segment Segment::open(Descriptor file, std::size_t bytes) {
  struct stat about{};
  if (fstat(file.get(), &about) != 0 || static_cast<std::size_t>(about.st_size) < bytes)
    raise(ErrorKind::kStartup, "shared memory of {} bytes is in a file of {}", bytes, about.st_size);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (memory == MAP_FAILED)
    raise(ErrorKind::kStartup, "shared memory of {} bytes cannot be mapped: {}", bytes, std::strerror(errno));
  madvise(memory, bytes, MADV_DONTDUMP);
  const auto unmap = [bytes](std::byte* mapped) { munmap(mapped, bytes); };
  return {std::move(file), bytes, std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), unmap)};
}

Segment::Segment(Descriptor file, std::size_t bytes, std::shared_ptr<std::byte> memory)
    : file_(std::move(file)), bytes_(bytes), memory_(std::move(memory)) {}

Segment Segment::with_file(Descriptor file) const {
  return {std::move(file), bytes_, memory_};
}

void Segment::reserve(std::size_t first, std::size_t bytes) const {
  int result = 0;
  do {
    result = fallocate(file_.get(), 0, static_cast<off_t>(first), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return;
  raise(ErrorKind::kStartup, "shared memory is short: {} bytes are needed, {} are free ({})", bytes,
        free_bytes(file_.get()), std::strerror(errno));
}

}  // namespace hora
