#pragma once

#include <span>
#include <string>
#include <vector>

namespace hora {

/// A library that was found at run time, or what was tried. It is never closed: other code of the process
/// uses it too.
struct FoundLibrary {
  void* library = nullptr;
  std::string place;               ///< where it was found, in words
  std::vector<std::string> tried;  ///< otherwise: each place and why it is not there
};

/// Where to look for a library, in this order: the path that a setting gives, and then nowhere else; what the
/// process has already loaded; files in `folders`; the system's search path.
struct LibrarySearch {
  std::string path;                  ///< empty: not set
  std::string setting;               ///< name of the setting
  std::string symbol;                ///< tells whether the process has the library
  std::vector<std::string> names;    ///< such as "libnccl.so.2"
  std::vector<std::string> folders;  ///< such as those of Python packages
};

[[nodiscard]] FoundLibrary find_library(const LibrarySearch& search);

/// The address of a function, or null.
[[nodiscard]] void* find_symbol(const FoundLibrary& found, const char* symbol);

/// Fills one entry of a table of functions; keeps the names of those that the library lacks.
class SymbolBinder {
 public:
  explicit SymbolBinder(const FoundLibrary& found) : found_(found) {}

  template <typename Function>
  void bind(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(find_symbol(found_, symbol));
    if (function == nullptr) missing_.emplace_back(symbol);
  }
  /// The same for what only some versions have, which is null elsewhere; says whether it is there.
  template <typename Function>
  bool bind_optional(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(find_symbol(found_, symbol));
    return function != nullptr;
  }
  [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

 private:
  const FoundLibrary& found_;
  std::vector<std::string> missing_;
};

}  // namespace hora
