// What the build has put into the library, and how it is loaded. No test here needs a GPU; those that need a
// tool of the CUDA toolkit are skipped where it is missing. HORA_TEST_NVRTC names folders with NVRTC,
// separated by colons.

#include "stand_ins/pack_kernels.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "backends/cuda/embedded_kernels.h"
#include "backends/cuda/image_cache.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/nvrtc.h"
#include "base/hash.h"

namespace hora::cuda {
namespace {

constexpr std::string_view kArchitectures = HORA_KERNEL_ARCHITECTURES;  // "75 80 90", empty without nvcc

std::set<std::string> all_names() {
  std::set<std::string> names;
  for (const PackKernel& kernel : kPackKernels)
    names.insert({std::string(kernel.name), std::string(kernel.name) + "_large"});
  return names;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A folder that is removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "hora-kernels.XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    return files;
  }

 private:
  std::filesystem::path path_;
};

// --- what is embedded

TEST(EmbeddedKernels, has_machine_code_where_nvcc_was_found) {
  EXPECT_EQ(embedded_kernels().fatbin.empty(), kArchitectures.empty());
}

TEST(EmbeddedKernels, machine_code_begins_as_the_driver_expects) {
  const auto fatbin = embedded_kernels().fatbin;
  if (fatbin.empty()) GTEST_SKIP() << "built without nvcc";
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(fatbin.data()) % 8, 0u);
  std::uint32_t magic = 0;
  std::memcpy(&magic, fatbin.data(), sizeof(magic));
  EXPECT_EQ(magic, 0xba55ed50u);
}

TEST(EmbeddedKernels, sources_end_with_a_zero_byte_and_include_nothing_else) {
  const auto embedded = embedded_kernels();
  std::set<std::string> names;
  for (const EmbeddedText& source : embedded.sources) names.insert(source.name);
  for (const EmbeddedText& source : embedded.sources) {
    ASSERT_FALSE(source.text.empty());
    EXPECT_EQ(source.text.data()[source.text.size()], '\0');
    std::istringstream lines{std::string(source.text)};
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("#include")) {
        const std::size_t begin = line.find('"') + 1;
        EXPECT_TRUE(names.contains(line.substr(begin, line.rfind('"') - begin))) << line;
      }
    }
  }
}

TEST(EmbeddedKernels, source_defines_every_kernel_of_the_table_and_no_other) {
  std::set<std::string> defined;
  std::istringstream lines{std::string(embedded_kernels().sources[0].text)};
  for (std::string line; std::getline(lines, line);) {
    const std::string begin = "HORA_KERNEL ";
    if (line.starts_with(begin)) defined.insert(line.substr(begin.size(), line.find('(') - begin.size()));
  }
  EXPECT_EQ(defined, all_names());
}

void* nowhere(const void*, std::size_t) {
  return nullptr;
}

TEST(HostKernels, stand_in_for_every_kernel_of_the_table) {
  std::set<std::string> names;
  for (const auto& kernel : stand_ins::HostKernels<nowhere>::kTable) names.insert(kernel.name);
  EXPECT_EQ(names, all_names());
}

/// What a command writes; nothing when it fails.
std::string output_of(const std::string& command) {
  std::string output;
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return {};
  char buffer[4096];
  while (const std::size_t length = std::fread(buffer, 1, sizeof(buffer), pipe))
    output.append(buffer, length);
  return pclose(pipe) == 0 ? output : std::string();
}

TEST(EmbeddedKernels, machine_code_has_every_kernel_for_every_architecture) {
  const auto fatbin = embedded_kernels().fatbin;
  if (fatbin.empty()) GTEST_SKIP() << "built without nvcc";
  if (output_of("cuobjdump --version").empty()) GTEST_SKIP() << "no cuobjdump";
  const Folder folder;
  const std::string path = folder.path() / "kernels.fatbin";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(fatbin.data()), static_cast<std::streamsize>(fatbin.size()));
  std::istringstream architectures{std::string(kArchitectures)};
  for (std::string architecture; architectures >> architecture;) {
    const std::string listed =
        output_of("cuobjdump --dump-elf-symbols -arch sm_" + architecture + " " + path);
    std::set<std::string> names;
    std::istringstream words(listed);
    for (std::string word; words >> word;) {
      if (all_names().contains(word)) names.insert(word);
    }
    EXPECT_EQ(names, all_names()) << "sm_" << architecture;
  }
}

// --- the cache of images

TEST(ImageCache, gives_back_what_was_written_and_leaves_nothing_else) {
  const Folder folder;
  const std::string path = folder.path() / "a" / "b" / "image";
  const std::vector<std::byte> image(10'000, std::byte{7});
  EXPECT_FALSE(read_image(path));
  ASSERT_TRUE(write_image(path, std::vector<std::byte>(3)));
  ASSERT_TRUE(write_image(path, image));
  EXPECT_EQ(read_image(path), image);
  EXPECT_EQ(folder.files(), std::vector<std::filesystem::path>{path});
}

TEST(ImageCache, a_file_that_is_not_as_it_was_written_is_not_used) {
  const Folder folder;
  const std::string path = folder.path() / "image";
  ASSERT_TRUE(write_image(path, std::vector<std::byte>(100, std::byte{7})));
  for (const std::size_t length : {100u, 8u, 0u}) {
    std::filesystem::resize_file(path, length);
    EXPECT_FALSE(read_image(path)) << length;
  }
  std::vector<std::byte> sealed = seal(std::vector<std::byte>(100, std::byte{7}));
  sealed[50] = std::byte{8};
  EXPECT_FALSE(unseal(sealed));
}

TEST(ImageCache, a_file_that_others_may_write_is_not_used) {
  using std::filesystem::perms;
  const Folder folder;
  const std::string path = folder.path() / "image";
  ASSERT_TRUE(write_image(path, std::vector<std::byte>(3)));
  EXPECT_EQ(std::filesystem::status(path).permissions(), perms::owner_read | perms::owner_write);
  EXPECT_TRUE(read_image(path));
  for (const perms others : {perms::group_write, perms::others_write}) {
    std::filesystem::permissions(path, perms::owner_read | others);
    EXPECT_FALSE(read_image(path));
  }
}

TEST(ImageCache, a_folder_that_cannot_be_made_is_no_error) {
  EXPECT_FALSE(write_image("/dev/null/cache/image", std::vector<std::byte>(3)));
}

TEST(ImageCache, hashes_tell_texts_and_their_borders_apart) {
  const auto hash = [](std::vector<std::string_view> texts) { return hash_of(texts); };
  EXPECT_EQ(hash({"ab", "c"}), hash({"ab", "c"}));
  EXPECT_NE(hash({"ab", "c"}), hash({"a", "bc"}));
  EXPECT_NE(hash({"ab"}), hash({"ac"}));
}

// --- NVRTC

std::vector<std::string> nvrtc_folders() {
  std::vector<std::string> folders{"/usr/local/cuda/lib64"};
  std::istringstream list(HORA_NVRTC_FOLDERS);
  for (std::string folder; std::getline(list, folder, ':');) folders.push_back(folder);
  return folders;
}

std::optional<Nvrtc> any_nvrtc() {
  std::vector<std::string> problems;
  return Nvrtc::open(nvrtc_folders(), 99, problems);
}

TEST(Nvrtc, compiles_the_embedded_source_without_a_remark) {
  const auto nvrtc = any_nvrtc();
  if (!nvrtc) GTEST_SKIP() << "no NVRTC";
  const auto embedded = embedded_kernels();
  for (const bool is_large : {false, nvrtc->knows_large_parameters()}) {
    const Compiled compiled = nvrtc->compile(embedded.sources, nvrtc->architecture(9, 0), is_large);
    EXPECT_EQ(compiled.log, "");
    ASSERT_FALSE(compiled.image.empty());
    for (const std::string& name : all_names()) {
      const bool is_wanted = is_large || !name.ends_with("_large");
      const auto found = text_of(compiled.image).find(".text." + name + '\0');
      EXPECT_EQ(found != std::string_view::npos, is_wanted) << name;
    }
  }
}

TEST(Nvrtc, an_architecture_that_is_newer_than_all_known_gets_ptx) {
  const auto nvrtc = any_nvrtc();
  if (!nvrtc) GTEST_SKIP() << "no NVRTC";
  const std::string architecture = nvrtc->architecture(99, 0);
  ASSERT_TRUE(architecture.starts_with("compute_")) << architecture;
  const Compiled compiled = nvrtc->compile(embedded_kernels().sources, architecture, false);
  EXPECT_NE(text_of(compiled.image).find(".visible .entry hora_copy("), std::string_view::npos);
  EXPECT_EQ(nvrtc->architecture(1, 0), "");
}

TEST(Nvrtc, one_that_is_newer_than_the_driver_is_not_taken) {
  if (!any_nvrtc()) GTEST_SKIP() << "no NVRTC";
  std::vector<std::string> problems;
  EXPECT_FALSE(Nvrtc::open(nvrtc_folders(), 1, problems));
  EXPECT_THAT(problems, ::testing::Contains(::testing::HasSubstr("the driver runs CUDA 1")));
}

TEST(Nvrtc, says_what_is_wrong_with_a_source) {
  const auto nvrtc = any_nvrtc();
  if (!nvrtc) GTEST_SKIP() << "no NVRTC";
  const EmbeddedText source{"wrong.cu", "no code"};
  const Compiled compiled = nvrtc->compile({&source, 1}, nvrtc->architecture(9, 0), false);
  EXPECT_TRUE(compiled.image.empty());
  EXPECT_NE(compiled.log.find("wrong.cu"), std::string::npos) << compiled.log;
}

// --- loading, by a driver that only takes notes

struct Notes {
  int version = 13000;
  std::vector<Result> answers;  ///< to the loads to come; then success
  std::set<std::string> lacking;
  std::vector<std::string> images;  ///< the first bytes of what was loaded
  std::set<std::string> fetched;
  int unloaded = 0;
  std::string launched;
};
Notes* notes = nullptr;  // the driver's functions have no other way to reach them

Result load_module(Module* module, const void* image) {
  notes->images.emplace_back(static_cast<const char*>(image), 4);
  if (!notes->answers.empty()) {
    const Result answer = notes->answers.front();
    notes->answers.erase(notes->answers.begin());
    if (answer != Result::kSuccess) return answer;
  }
  *module = reinterpret_cast<Module>(notes);
  return Result::kSuccess;
}

Result fetch_function(Function* function, Module, const char* name) {
  if (notes->lacking.contains(name)) return Result::kNotFound;
  const auto place = notes->fetched.insert(name).first;
  *function = reinterpret_cast<Function>(const_cast<std::string*>(&*place));
  return Result::kSuccess;
}

class LoadPackKernels : public ::testing::Test {
 protected:
  LoadPackKernels() {
    notes = &notes_;
    driver_.driver_version = [](int* version) {
      *version = notes->version;
      return Result::kSuccess;
    };
    driver_.device_attribute = [](int* value, DeviceAttribute which, DeviceNumber) {
      *value = which == DeviceAttribute::kComputeCapabilityMajor ? 9 : 0;
      return Result::kSuccess;
    };
    driver_.error_name = [](Result, const char** name) {
      *name = "CUDA_ERROR_OF_TEST";
      return Result::kSuccess;
    };
    driver_.module_load = load_module;
    driver_.module_unload = [](Module) {
      ++notes->unloaded;
      return Result::kSuccess;
    };
    driver_.module_function = fetch_function;
    driver_.launch_kernel = [](Function function, unsigned grid, unsigned, unsigned, unsigned block, unsigned,
                               unsigned, unsigned, Stream, void** parameters, void**) {
      const auto& arguments = *static_cast<const SmallPackArguments*>(parameters[0]);
      notes->launched = fmt::format("{} {}x{} {}", *reinterpret_cast<const std::string*>(function), grid,
                                    block, arguments.piece_count);
      return Result::kSuccess;
    };
    embedded_.fatbin = std::as_bytes(std::span("fatbin"));
  }

  LoadedKernels load(const KernelSearch& search = {}) {
    return load_pack_kernels(driver_, 0, search, embedded_);
  }

  Notes notes_;
  Driver driver_{};
  EmbeddedKernels embedded_ = embedded_kernels();
};

TEST_F(LoadPackKernels, fetches_every_function_at_once) {
  const auto loaded = load();
  ASSERT_TRUE(loaded.kernels) << loaded.reason;
  EXPECT_EQ(notes_.fetched, all_names());
  EXPECT_EQ(loaded.kernels->capacity(), 1022u);
  EXPECT_EQ(loaded.reason, "the packing kernels are the machine code within hora");
}

TEST_F(LoadPackKernels, unloads_the_module_at_the_end) {
  load().kernels.reset();
  EXPECT_EQ(notes_.unloaded, 1);
}

TEST_F(LoadPackKernels, launches_have_few_pieces_on_drivers_before_12_1) {
  notes_.version = 12000;
  const auto loaded = load();
  ASSERT_TRUE(loaded.kernels) << loaded.reason;
  EXPECT_EQ(loaded.kernels->capacity(), 127u);
  EXPECT_EQ(notes_.fetched.size(), kPackKernels.size());
}

TEST_F(LoadPackKernels, launches_have_few_pieces_where_the_image_has_no_kernels_for_many) {
  notes_.lacking = {"hora_fill_large"};
  const auto loaded = load();
  ASSERT_TRUE(loaded.kernels) << loaded.reason;
  EXPECT_EQ(loaded.kernels->capacity(), 127u);
}

TEST_F(LoadPackKernels, a_kernel_that_is_missing_is_named) {
  notes_.lacking = {"hora_fill"};
  const auto loaded = load();
  EXPECT_FALSE(loaded.kernels);
  EXPECT_EQ(loaded.reason, "the machine code within hora lacks the kernel hora_fill");
  EXPECT_EQ(notes_.unloaded, 1);
}

TEST_F(LoadPackKernels, an_error_that_another_image_would_not_cure_ends_the_search) {
  notes_.answers = {Result::kOutOfMemory};
  const auto loaded = load();
  EXPECT_FALSE(loaded.kernels);
  EXPECT_EQ(loaded.reason, "the driver refuses the machine code within hora (CUDA_ERROR_OF_TEST)");
  EXPECT_EQ(notes_.images.size(), 1u);
}

TEST_F(LoadPackKernels, without_any_compiler_the_reason_names_both_troubles) {
  notes_.answers = {Result::kNoBinaryForGpu};
  notes_.version = 1000;  // no NVRTC is as old
  const auto loaded = load();
  EXPECT_FALSE(loaded.kernels);
  EXPECT_NE(loaded.reason.find("the driver refuses the machine code within hora"), std::string::npos);
  EXPECT_NE(loaded.reason.find("no usable libnvrtc was found"), std::string::npos);
}

TEST_F(LoadPackKernels, launches_the_kernel_that_suits_the_number_of_pieces) {
  const auto loaded = load();
  ASSERT_TRUE(loaded.kernels) << loaded.reason;
  const Packing packing{DType::kFloat32, DType::kFloat16};
  const auto launched = [&](std::size_t pieces) {
    const std::vector<PackPiece> list(pieces, PackPiece{nullptr, nullptr, 5, 0});
    EXPECT_EQ(loaded.kernels->launch(plan_launches(list, packing, loaded.kernels->capacity()).at(0), nullptr),
              Result::kSuccess);
    return notes_.launched;
  };
  EXPECT_EQ(launched(2), "hora_pack_float32_float16 2x256 2");
  EXPECT_EQ(launched(200), "hora_pack_float32_float16_large 200x256 200");
}

class LoadCompiledPackKernels : public LoadPackKernels {
 protected:
  void SetUp() override {
    if (!any_nvrtc()) GTEST_SKIP() << "no NVRTC";
    notes_.version = 99000;
    embedded_.fatbin = {};
  }

  Folder folder_;
  KernelSearch search_{nvrtc_folders(), folder_.path() / "cache"};
};

TEST_F(LoadCompiledPackKernels, the_source_is_compiled_where_there_is_no_machine_code) {
  const auto loaded = load(search_);
  ASSERT_TRUE(loaded.kernels) << loaded.reason;
  EXPECT_NE(loaded.reason.find("since hora was built without nvcc"), std::string::npos) << loaded.reason;
  ASSERT_EQ(notes_.images.size(), 1u);
  EXPECT_EQ(notes_.images[0],
            "\x7f"
            "ELF");
}

TEST_F(LoadCompiledPackKernels, the_image_is_kept_for_the_next_time) {
  (void)load(search_);
  ASSERT_EQ(folder_.files().size(), 1u);
  const auto loaded = load(search_);
  ASSERT_TRUE(loaded.kernels);
  EXPECT_NE(loaded.reason.find("kept in " + folder_.files()[0].string()), std::string::npos) << loaded.reason;
}

TEST_F(LoadCompiledPackKernels, a_kept_image_that_is_refused_is_made_anew) {
  (void)load(search_);
  const std::string path = folder_.files().at(0);
  ASSERT_TRUE(write_image(path, std::vector<std::byte>(8)));
  notes_.answers = {Result::kInvalidImage};
  const auto loaded = load(search_);
  ASSERT_TRUE(loaded.kernels) << loaded.reason;
  EXPECT_GT(read_image(path)->size(), 1000u);
}

}  // namespace
}  // namespace hora::cuda
