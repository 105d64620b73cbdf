// Modules, libraries, functions and their launches. Images are taken as they are, every function that is asked for is
// there, and running one does nothing: contents that a kernel would compute stay what they were.
//
// An image in ELF takes what its sections say that are loaded, code and global variables ("The amount of memory that is
// set aside for __device__ variables", driver API, module management), as with eager loading. What other forms take is
// not known here: nothing. A function `…__local16384` needs so many bytes of local memory a thread, which its first
// launch takes for every thread that can be resident ("the driver automatically increases the per-thread stack size for
// each kernel launch as needed", driver API, cuCtxSetLimit).
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture.hpp"
#include "managed.hpp"
#include "observer.hpp"
#include "stream_time.hpp"

RATION_ENTRY cuDeviceGetAttribute(int* out, ration::cuda::CUdevice_attribute attribute, ration::cuda::CUdevice ordinal);

namespace ration::sim {
namespace {

using namespace cuda;

struct Image;
struct Function {
  Image* image = nullptr;
  std::string name;
  bool spins = false;  // for as many cycles as its argument says: `torch.cuda._sleep`
  std::unordered_map<int, int> attributes;
};
struct Global {
  std::uint64_t offset = 0, size = 0;  // within the image's block
};
struct Image {
  Context* context = nullptr;
  std::uint64_t memory = 0;  // the address of its block; 0: it has none
  std::unordered_map<std::string, Function*> functions;
  std::unordered_map<std::string, Global> globals;
};

constexpr int kMaxThreads = 0, kLocalSize = 3, kMaxDynamicShared = 8;  // CUfunction_attribute

/// An image in ELF. Images come without their length, so a reader has to believe them, as the driver does.
class Elf {
 public:
  explicit Elf(const void* image) : bytes_(static_cast<const char*>(image)) {
    Elf64_Ehdr header;
    std::memcpy(header.e_ident, image, SELFMAG);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return;
    std::memcpy(&header, image, sizeof header);
    for (int index = 0; index < header.e_shnum; ++index)
      sections_.push_back(read<Elf64_Shdr>(header.e_shoff + index * sizeof(Elf64_Shdr)));
    for (Elf64_Shdr& section : sections_) {
      if (header.e_shstrndx < sections_.size() &&
          is_of_multiprocessors(bytes_ + sections_[header.e_shstrndx].sh_offset + section.sh_name))
        section.sh_flags &= ~std::uint64_t{SHF_ALLOC};
      if (is_loaded(section)) size_ += padding(size_, section.sh_addralign);
      offsets_.push_back(size_);
      if (is_loaded(section)) size_ += section.sh_size;
    }
  }

  /// What it takes on the device: its loaded sections, one after the other.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Its variables, by name.
  [[nodiscard]] std::unordered_map<std::string, Global> globals() const {
    std::unordered_map<std::string, Global> found;
    for (const Elf64_Shdr& table : sections_) {
      if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections_.size()) continue;
      for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
        const auto symbol = read<Elf64_Sym>(table.sh_offset + at);
        if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx >= sections_.size()) continue;
        if (!is_loaded(sections_[symbol.st_shndx])) continue;
        found.emplace(bytes_ + sections_[table.sh_link].sh_offset + symbol.st_name,
                      Global{offsets_[symbol.st_shndx] + symbol.st_value, symbol.st_size});
      }
    }
    return found;
  }

  /// Writes the variables that have a value into a block of the image. False: the host has no memory for it.
  [[nodiscard]] bool initialise(std::uint64_t block) const {
    for (std::size_t index = 0; index < sections_.size(); ++index) {
      const Elf64_Shdr& section = sections_[index];
      if (!is_loaded(section) || section.sh_type != SHT_PROGBITS || (section.sh_flags & SHF_EXECINSTR) != 0) continue;
      if (!touch(block + offsets_[index], section.sh_size)) return false;
      std::memcpy(reinterpret_cast<void*>(block + offsets_[index]), bytes_ + section.sh_offset, section.sh_size);
    }
    return true;
  }

 private:
  /// Shared and local memory have sections, too, but no place on the device.
  static bool is_of_multiprocessors(const char* name) {
    return std::strcmp(name, ".nv.shared") == 0 || std::strncmp(name, ".nv.local", 9) == 0;
  }
  static std::uint64_t padding(std::uint64_t at, std::uint64_t alignment) {
    return alignment > 1 ? (alignment - at % alignment) % alignment : 0;
  }
  static bool is_loaded(const Elf64_Shdr& section) { return (section.sh_flags & SHF_ALLOC) != 0; }
  template <typename Kind>
  Kind read(std::uint64_t at) const {
    Kind out;
    std::memcpy(&out, bytes_ + at, sizeof out);
    return out;
  }

  const char* bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<std::uint64_t> offsets_;  // of each section in the block
  std::uint64_t size_ = 0;
};

int local_size(const std::string& name) {
  const auto at = name.rfind("__local");
  return at == std::string::npos ? 0 : std::atoi(name.c_str() + at + 7);
}

template <typename Handle>
CUresult load(Handle* out, const void* image, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Image made{current(), 0, {}, {}};
  const Elf elf(image);
  if (elf.size() > 0 && made.context != nullptr) {
    Driver& state = driver();
    const std::lock_guard guard(state.mutex);
    Block block;
    if (!take_block(made.context->device, elf.size(), block)) return CUDA_ERROR_OUT_OF_MEMORY;
    block.context = made.context;
    made.memory = block.address;
    made.globals = elf.globals();
    state.blocks.emplace(block.address, std::move(block));
    if (!elf.initialise(made.memory)) return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *out = reinterpret_cast<Handle>(new Image(std::move(made)));
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult load_file(Handle* out, const char* path, const char* function = __builtin_FUNCTION()) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  std::string image{std::istreambuf_iterator<char>(file), {}};
  image.resize(std::max(image.size(), sizeof(Elf64_Ehdr)));
  return load(out, image.data(), function);
}

template <typename Handle>
CUresult find(Handle* out, Image* image, const char* name, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || image == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  Function*& entry = image->functions[name];
  if (entry == nullptr) entry = new Function{image, name, std::strstr(name, "spin_kernel") != nullptr, {}};
  *out = reinterpret_cast<Handle>(entry);
  return CUDA_SUCCESS;
}

CUresult find_global(CUdeviceptr* address, std::size_t* size, const Image* image, const char* name,
                     const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (image == nullptr || name == nullptr || (address == nullptr && size == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = image->globals.find(name);
  if (found == image->globals.end()) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = image->memory + found->second.offset;
  if (size != nullptr) *size = found->second.size;
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult unload(Handle handle, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  auto* image = reinterpret_cast<Image*>(handle);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [name, entry] : image->functions) delete entry;
  Driver& state = driver();
  const std::lock_guard guard(state.mutex);
  const auto memory = state.blocks.find(image->memory);
  if (memory != state.blocks.end() && memory->second.context == image->context) {  // else it went with that
    give_block(memory->second);
    state.blocks.erase(memory);
  }
  delete image;
  return CUDA_SUCCESS;
}

CUresult attribute(int* out, int number, Function* entry, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || entry == nullptr || number < 0) return CUDA_ERROR_INVALID_VALUE;
  const auto set = entry->attributes.find(number);
  *out = set != entry->attributes.end() ? set->second
         : number == kMaxThreads        ? 1024
         : number == kLocalSize         ? local_size(entry->name)
         : number == 4                  ? 32
         : number == 5 || number == 6   ? 80
                                        : 0;
  return CUDA_SUCCESS;
}

CUresult set_attribute(Function* entry, int number, int value, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (entry == nullptr || number < kMaxDynamicShared) return CUDA_ERROR_INVALID_VALUE;
  entry->attributes[number] = value;
  return CUDA_SUCCESS;
}

/// How long a kernel keeps its stream busy, in nanoseconds.
std::uint64_t time_of(const Function* kernel, void** arguments) {
  if (kernel == nullptr || !kernel->spins || arguments == nullptr) return kernel_latency();
  std::int64_t cycles = 0;
  int kilohertz = 0;
  std::memcpy(&cycles, arguments[0], sizeof cycles);
  cuDeviceGetAttribute(&kilohertz, static_cast<CUdevice_attribute>(13), ordinal_of(current()->device));
  return static_cast<std::uint64_t>(static_cast<double>(std::max<std::int64_t>(cycles, 0)) * 1e6 / kilohertz);
}

CUresult start(CUfunction handle, CUstream stream, void** arguments, const char* function) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const auto* entry = reinterpret_cast<Function*>(handle);
  if (entry != nullptr) {
    if (const int local = local_size(entry->name); local > 0)
      if (const CUresult grown = grow_stack(current(), static_cast<std::size_t>(local)); grown != CUDA_SUCCESS)
        return grown;
  }
  if (capture_work(stream)) return CUDA_SUCCESS;
  touch_all_managed(current());
  occupy(stream, time_of(entry, arguments));
  return CUDA_SUCCESS;
}

struct Shape {
  unsigned grid[3], block[3], shared;
};

CUresult launch(CUfunction handle, const Shape& shape, CUstream stream, void** arguments, const char* function) {
  const auto describe = [&](Operation& operation) {
    const auto* entry = reinterpret_cast<Function*>(handle);
    operation.kernel = handle;
    operation.name = entry != nullptr ? entry->name.c_str() : "";
    std::copy_n(shape.grid, 3, operation.grid);
    std::copy_n(shape.block, 3, operation.block);
    operation.shared = shape.shared;
    operation.stream = stream;
    operation.is_async = true;
    operation.is_captured = is_captured(stream);
    operation.arguments = arguments;
    if (operation.is_captured || current() == nullptr) return;
    if (const auto time = static_cast<Moment>(time_of(entry, arguments)); time > 0) {
      operation.begins = std::max(now(), end_of(stream));
      operation.ends = operation.begins + time;
    }
  };
  return observed(Work::kLaunch, function, describe, [&] { return start(handle, stream, arguments, function); });
}

CUresult blocks(int* out, int threads, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || threads < 1) return CUDA_ERROR_INVALID_VALUE;
  *out = threads > 1024 ? 0 : std::min(16, 2048 / threads);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;
using Launch = const struct {
  Shape shape;
  CUstream stream;
}*;  // the beginning of CUlaunchConfig

RATION_ENTRY cuModuleLoad(CUmodule* out, const char* file) { return load_file(out, file); }
RATION_ENTRY cuModuleLoadData(CUmodule* out, const void* image) { return load(out, image); }
RATION_ENTRY cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, int*, void**) {
  return load(out, image);
}
RATION_ENTRY cuModuleLoadFatBinary(CUmodule* out, const void* image) { return load(out, image); }
RATION_ENTRY cuModuleUnload(CUmodule module) { return unload(module); }
RATION_ENTRY cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  return find(out, reinterpret_cast<Image*>(module), name);
}
RATION_ENTRY cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* size, CUmodule module, const char* name) {
  return find_global(address, size, reinterpret_cast<Image*>(module), name);
}
RATION_ENTRY cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* size, void* library, const char* name) {
  return find_global(address, size, static_cast<Image*>(library), name);
}
RATION_ENTRY cuModuleGetLoadingMode(int* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 2;  // lazy
  return CUDA_SUCCESS;
}
RATION_ENTRY cuLibraryLoadData(void** out, const void* code, int*, void**, unsigned int, int*, void**, unsigned int) {
  return load(out, code);
}
RATION_ENTRY cuLibraryLoadFromFile(void** out, const char* file, int*, void**, unsigned int, int*, void**,
                                   unsigned int) {
  return load_file(out, file);
}
RATION_ENTRY cuLibraryUnload(void* library) { return unload(library); }
RATION_ENTRY cuLibraryGetKernel(void** out, void* library, const char* name) {
  return find(out, static_cast<Image*>(library), name);
}
RATION_ENTRY cuLibraryGetModule(CUmodule* out, void* library) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr || library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuKernelGetFunction(CUfunction* out, void* kernel) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr || kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuKernelGetAttribute(int* out, int number, void* kernel, CUdevice) {
  return attribute(out, number, static_cast<Function*>(kernel));
}
RATION_ENTRY cuKernelSetAttribute(int number, int value, void* kernel, CUdevice) {
  return set_attribute(static_cast<Function*>(kernel), number, value);
}
RATION_ENTRY cuKernelGetName(const char** out, void* kernel) {
  if (out == nullptr || kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<Function*>(kernel)->name.c_str();
  return CUDA_SUCCESS;
}
RATION_ENTRY cuFuncGetName(const char** out, CUfunction function) { return cuKernelGetName(out, function); }
RATION_ENTRY cuFuncGetAttribute(int* out, int number, CUfunction function) {
  return attribute(out, number, reinterpret_cast<Function*>(function));
}
RATION_ENTRY cuFuncSetAttribute(CUfunction function, int number, int value) {
  return set_attribute(reinterpret_cast<Function*>(function), number, value);
}
RATION_ENTRY cuFuncSetCacheConfig(CUfunction function, int) {
  return function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
RATION_ENTRY cuFuncGetModule(CUmodule* out, CUfunction function) {
  if (out == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmodule>(reinterpret_cast<Function*>(function)->image);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuFuncLoad(CUfunction function) { return function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
RATION_ENTRY cuFuncIsLoaded(int* out, CUfunction function) {
  if (out == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 1;
  return CUDA_SUCCESS;
}

#define LAUNCH(name, ...)                                                                                        \
  RATION_ENTRY name(CUfunction handle, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int x,        \
                    unsigned int y, unsigned int z, unsigned int shared, CUstream stream,                        \
                    void** arguments __VA_OPT__(, ) __VA_ARGS__) {                                               \
    return launch(handle, {{gx, gy, gz}, {x, y, z}, shared}, stream, arguments, #name);                          \
  }                                                                                                              \
  RATION_ENTRY name##_ptsz(CUfunction handle, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int x, \
                           unsigned int y, unsigned int z, unsigned int shared, CUstream stream,                 \
                           void** arguments __VA_OPT__(, ) __VA_ARGS__) {                                        \
    return launch(handle, {{gx, gy, gz}, {x, y, z}, shared}, per_thread(stream), arguments, #name);              \
  }
LAUNCH(cuLaunchKernel, void**)
LAUNCH(cuLaunchCooperativeKernel)
RATION_ENTRY cuLaunchKernelEx(Launch config, CUfunction handle, void** arguments, void**) {
  return config == nullptr ? CUDA_ERROR_INVALID_VALUE
                           : launch(handle, config->shape, config->stream, arguments, "cuLaunchKernelEx");
}
RATION_ENTRY cuLaunchKernelEx_ptsz(Launch config, CUfunction handle, void** arguments, void**) {
  return config == nullptr ? CUDA_ERROR_INVALID_VALUE
                           : launch(handle, config->shape, per_thread(config->stream), arguments, "cuLaunchKernelEx");
}

RATION_ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, CUfunction, int threads, std::size_t) {
  return blocks(out, threads);
}
RATION_ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, CUfunction, int threads, std::size_t,
                                                                  unsigned int) {
  return blocks(out, threads);
}
RATION_ENTRY cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction, std::size_t (*)(int), std::size_t,
                                              int most) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *block = most > 0 ? std::min(most, 1024) : 1024;
  *grid =
      2 *
      (current() == nullptr ? 1 : Node::get()->models()[static_cast<std::size_t>(current()->device)].multiprocessors);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                       std::size_t (*shared)(int), std::size_t dynamic, int most,
                                                       unsigned int) {
  return cuOccupancyMaxPotentialBlockSize(grid, block, function, shared, dynamic, most);
}
