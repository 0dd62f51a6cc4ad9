#include "backends/library_search.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace hora {
namespace {

bool open_file(const std::string& file, FoundLibrary& found) {
  found.library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (found.library == nullptr) {
    const char* const reason = dlerror();
    found.tried.push_back(fmt::format("{}: {}", file, reason != nullptr ? reason : "cannot be opened"));
    return false;
  }
  found.place = file;
  return true;
}

bool find_loaded(const LibrarySearch& search, FoundLibrary& found) {
  if (dlsym(RTLD_DEFAULT, search.symbol.c_str()) != nullptr) {
    found.library = RTLD_DEFAULT;
    found.place = "loaded by the program";
  }
  for (const std::string& name : search.names) {
    if (found.place.empty() && (found.library = dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD)) != nullptr)
      found.place = fmt::format("{}, loaded by the program", name);
  }
  if (found.place.empty()) found.tried.emplace_back("not loaded by the program");
  return !found.place.empty();
}

}  // namespace

FoundLibrary find_library(const LibrarySearch& search) {
  FoundLibrary found;
  if (!search.path.empty()) {
    if (!open_file(search.path, found)) found.tried.push_back(fmt::format("({} is set)", search.setting));
    return found;
  }
  if (find_loaded(search, found)) return found;
  for (const std::string& folder : search.folders) {
    for (const std::string& name : search.names) {
      if (open_file(folder + "/" + name, found)) return found;
    }
  }
  for (const std::string& name : search.names) {
    if (open_file(name, found)) return found;
  }
  return found;
}

void* find_symbol(const FoundLibrary& found, const char* symbol) {
  // RTLD_DEFAULT is null.
  return found.place.empty() ? nullptr : dlsym(found.library, symbol);
}

}  // namespace hora
