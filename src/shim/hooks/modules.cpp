// Loaded code: modules and libraries. "The amount of memory that is set aside" for code and `__device__` variables is
// taken when they are loaded, or at the first use (driver API, module management; CUDA_MODULE_LOADING). Charged when
// they are loaded, as far as the image tells: cubins, which are ELF. What other forms take (PTX, fat binaries, those
// that NVIDIA's runtime loads by private functions) a daemon finds by comparison (src/node/node_unrequested.cpp).
#include <elf.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/file.hpp"
#include "driver/cuda_abi.hpp"
#include "shim/hooks/after_fork.hpp"
#include "shim/hooks/charged_handles.hpp"
#include "shim/hooks/hooks.hpp"

namespace ration::shim {
namespace {

using namespace cuda;

ChargedHandles images;  // modules and libraries: both are handles of their own

/// Reads the program's own memory where that is there at all: an image in a broken form is the driver's to refuse.
bool read_memory(const void* image, std::uint64_t offset, void* out, std::size_t size) noexcept {
  const iovec to{out, size}, from{const_cast<char*>(static_cast<const char*>(image)) + offset, size};
  return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == static_cast<ssize_t>(size);
}

bool read_file(int file, std::uint64_t offset, void* out, std::size_t size) noexcept {
  return ::pread(file, out, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

/// What the sections take that are loaded: code, constants, global variables. Shared and local memory have sections,
/// too, but no place on the device.
template <typename Read>
Bytes loaded_size(Read&& read) noexcept {
  Elf64_Ehdr header;
  Elf64_Shdr section, names{};
  if (!read(0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return Bytes{0};
  const auto section_at = [&](std::uint64_t index, Elf64_Shdr& out) {
    return read(header.e_shoff + index * sizeof out, &out, sizeof out);
  };
  if (!section_at(header.e_shstrndx, names)) return Bytes{0};
  Bytes size;
  for (std::uint64_t index = 0; index < header.e_shnum && section_at(index, section); ++index) {
    if ((section.sh_flags & SHF_ALLOC) == 0) continue;
    char name[11] = {};
    (void)read(names.sh_offset + section.sh_name, name, sizeof name - 1);
    if (std::strcmp(name, ".nv.shared") == 0 || std::strncmp(name, ".nv.local", 9) == 0) continue;
    if (const std::uint64_t step = section.sh_addralign; step > 1 && step <= kGranule.count())
      size += Bytes{(step - size.count() % step) % step};
    size += std::min(Bytes{section.sh_size}, kUnlimited - size);
  }
  return round_up(size, kGranule);
}

Bytes size_of_image(const void* image) noexcept {
  return loaded_size([&](std::uint64_t at, void* out, std::size_t size) { return read_memory(image, at, out, size); });
}

Bytes size_of_file(const char* path) noexcept {
  const FileDescriptor file{::open(path, O_RDONLY | O_CLOEXEC)};
  if (!file) return Bytes{0};
  return loaded_size(
      [&](std::uint64_t at, void* out, std::size_t size) { return read_file(file.get(), at, out, size); });
}

template <typename Handle, typename Call>
CUresult load(Bytes size, const char* function, Handle* out, Call&& call) noexcept {
  const Place place = size > Bytes{0} ? current_place() : Place{};
  if (place.context == 0) return call();
  const CUresult result = charged(place.account, size, Kind::kHeap, function, call);
  if (result == CUDA_SUCCESS) images.enter(reinterpret_cast<std::uint64_t>(*out), place, size);
  return result;
}

template <typename Handle, typename Call>
CUresult unload(Handle handle, Call&& call) noexcept {
  return images.release(reinterpret_cast<std::uint64_t>(handle), call, [](Bytes) {});
}

}  // namespace

void images_of_context_are_gone(std::uint64_t context) noexcept {
  images.context_is_gone(context, [](std::uint64_t, Bytes) {});
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept { images.abandon(); });

}  // namespace ration::shim

using namespace ration::shim;
using namespace ration::cuda;

// NAME(OUT, SOURCE, …): what stands behind the source is passed on as it is.
#define RATION_LOAD(name, source, size_of, parameters, arguments)             \
  RATION_HOOK CUresult name parameters {                                      \
    const auto call = [&] { return real<name##_t>(Symbol::name) arguments; }; \
    if (!governed() || out == nullptr || source == nullptr) return call();    \
    return load(size_of(source), #name, out, call);                           \
  }
RATION_LOAD(cuModuleLoad, path, size_of_file, (CUmodule * out, const char* path), (out, path))
RATION_LOAD(cuModuleLoadData, image, size_of_image, (CUmodule * out, const void* image), (out, image))
RATION_LOAD(cuModuleLoadDataEx, image, size_of_image,
            (CUmodule * out, const void* image, unsigned int count, int* options, void** values),
            (out, image, count, options, values))
RATION_LOAD(cuLibraryLoadData, image, size_of_image,
            (CUlibrary * out, const void* image, int* jit, void** jit_values, unsigned int jit_count, int* options,
             void** values, unsigned int count),
            (out, image, jit, jit_values, jit_count, options, values, count))
RATION_LOAD(cuLibraryLoadFromFile, path, size_of_file,
            (CUlibrary * out, const char* path, int* jit, void** jit_values, unsigned int jit_count, int* options,
             void** values, unsigned int count),
            (out, path, jit, jit_values, jit_count, options, values, count))
#undef RATION_LOAD

RATION_HOOK CUresult cuModuleUnload(CUmodule module) {
  const auto call = [&] { return real<cuModuleUnload_t>(Symbol::cuModuleUnload)(module); };
  return governed() ? unload(module, call) : call();
}
RATION_HOOK CUresult cuLibraryUnload(CUlibrary library) {
  const auto call = [&] { return real<cuLibraryUnload_t>(Symbol::cuLibraryUnload)(library); };
  return governed() ? unload(library, call) : call();
}
