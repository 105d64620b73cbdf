// The ways of taking memory by loading code: in each form, from files, in libraries, and by images that declare less
// than they take.
#include <elf.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "sim/workload/driver_calls.hpp"
#include "sim/workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

std::vector<CUmodule> modules;
std::vector<CUlibrary> libraries;

template <typename Part>
void append(std::string& image, const Part& part) {
  image.append(reinterpret_cast<const char*>(&part), sizeof part);
}

/// The properties of a cubin that make its size harder to determine.
struct Crafted {
  bool many_sections = false;   // the first section holds the number of sections and the index of their names
  std::uint64_t alignment = 1;  // alignment of the second of two variables
};

/// Makes a cubin with only a `__device__` array of that size.
std::string cubin(std::size_t size, const Crafted& crafted = {}) {
  static constexpr char kNames[32] = "\0.nv.global\0.shstrtab";
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = EM_CUDA;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shoff = sizeof header + sizeof kNames;
  constexpr unsigned kSections = 4;
  header.e_shnum = crafted.many_sections ? 0 : kSections;
  header.e_shstrndx = crafted.many_sections ? static_cast<Elf64_Half>(SHN_XINDEX) : 1;
  Elf64_Shdr first{};
  if (crafted.many_sections) {
    first.sh_size = kSections;
    first.sh_link = 1;
  }
  const std::size_t before = crafted.alignment > 1 ? 1 : size - size / 2;
  const Elf64_Shdr names{12, SHT_STRTAB, 0, 0, sizeof header, sizeof kNames, 0, 0, 1, 0};
  const Elf64_Shdr one{1, SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 0, 0, before, 0, 0, 1, 0};
  const Elf64_Shdr two{1, SHT_NOBITS, SHF_ALLOC | SHF_WRITE, 0, 0, size / 2, 0, 0, crafted.alignment, 0};
  std::string image;
  append(image, header);
  image.append(kNames, sizeof kNames);
  for (const Elf64_Shdr& section : {first, names, one, two}) append(image, section);
  return image;
}

/// Makes a fat binary with the cubin for this device and a small one for a later device.
std::string fat_binary(std::size_t size) {
  int major = 0, minor = 0;
  DRIVER(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  DRIVER(cuDeviceGetAttribute)(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
  std::string entries;
  const auto add = [&](unsigned capability, const std::string& code) {
    struct {
      std::uint16_t kind = 2, version = 0x101;
      std::uint32_t header_size = 64;
      std::uint64_t size = 0;
      std::uint32_t unused[3] = {};
      std::uint32_t capability = 0;
      std::uint64_t rest[4] = {};
    } entry;
    static_assert(sizeof entry == 64);
    entry.size = code.size();
    entry.capability = capability;
    append(entries, entry);
    entries += code;
  };
  add(static_cast<unsigned>(10 * major + minor), cubin(size));
  add(static_cast<unsigned>(10 * (major + 1)), cubin(512));
  struct {
    std::uint32_t magic = 0xba55ed50;
    std::uint16_t version = 1, header_size = 16;
    std::uint64_t size = 0;
  } header;
  header.size = entries.size();
  std::string image;
  append(image, header);
  return image + entries;
}

/// The struct that the compiler puts into a program, which points to the fat binary.
struct Wrapped {
  std::uint32_t magic = 0x466243b1, version = 1;
  const void* data;
  const void* more = nullptr;
};

using LoadModule = CUresult(CUmodule* out, const void* image);
using LoadLibrary = CUresult(CUlibrary* out, const void* image);

CUresult load(CUmodule* out, const void* image) { return DRIVER(cuModuleLoadData)(out, image); }
CUresult load_with_options(CUmodule* out, const void* image) {
  return DRIVER(cuModuleLoadDataEx)(out, image, 0, nullptr, nullptr);
}
CUresult load_fat(CUmodule* out, const void* image) { return DRIVER(cuModuleLoadFatBinary)(out, image); }
CUresult load_file(CUmodule* out, const void* path) {
  return DRIVER(cuModuleLoad)(out, static_cast<const char*>(path));
}
CUresult load(CUlibrary* out, const void* image) {
  return DRIVER(cuLibraryLoadData)(out, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
}
CUresult load_file(CUlibrary* out, const void* path) {
  return DRIVER(cuLibraryLoadFromFile)(out, static_cast<const char*>(path), nullptr, nullptr, 0, nullptr, nullptr, 0);
}

CUresult take(LoadModule* load, const void* image) {
  CUmodule module = nullptr;
  const CUresult result = load(&module, image);
  if (result == CUDA_SUCCESS) modules.push_back(module);
  return result;
}
CUresult take(LoadLibrary* load, const void* image) {
  CUlibrary loaded = nullptr;
  const CUresult result = load(&loaded, image);
  if (result == CUDA_SUCCESS) libraries.push_back(loaded);
  return result;
}

/// Takes memory by loading the image from a file of its own.
template <typename Load>
CUresult take_from_file(Load* load, const std::string& image) {
  char path[] = "/tmp/ration-probe-XXXXXX";
  const int file = ::mkstemp(path);
  const bool written = file >= 0 && ::write(file, image.data(), image.size()) == static_cast<ssize_t>(image.size());
  const CUresult result = written ? take(load, path) : CUDA_ERROR_UNKNOWN;
  if (file >= 0) {
    ::close(file);
    ::unlink(path);
  }
  return result;
}

template <typename Load>
CUresult take_wrapped(Load* load, const std::string& image) {
  const Wrapped wrapped{.data = image.data()};
  return take(load, &wrapped);
}

void drop() {
  for (const CUmodule module : modules) DRIVER(cuModuleUnload)(module);
  modules.clear();
  for (const CUlibrary each : libraries) DRIVER(cuLibraryUnload)(each);
  libraries.clear();
}

}  // namespace

std::vector<Way> code_ways() {
  LoadModule* const module = load;
  LoadModule* const module_file = load_file;
  LoadLibrary* const whole = load;
  LoadLibrary* const whole_file = load_file;
  constexpr auto kData = "cuLibraryLoadData", kFile = "cuLibraryLoadFromFile";
  const Crafted many_sections{true, 1};
  return {
      {"code", [=](std::size_t n) { return take(module, cubin(n).data()); }, drop},
      {"code-with-options", [](std::size_t n) { return take(load_with_options, cubin(n).data()); }, drop},
      {"code-in-a-file", [=](std::size_t n) { return take_from_file(module_file, cubin(n)); }, drop},
      {"code-as-fat-binary", [](std::size_t n) { return take(load_fat, cubin(n).data()); }, drop},
      {"code-many-sections", [=](std::size_t n) { return take(module, cubin(n, many_sections).data()); }, drop},
      {"code-aligned",
       [=](std::size_t n) {
         return take(module, cubin(n, Crafted{false, n / 2}).data());
       },
       drop},
      {"fat-binary", [=](std::size_t n) { return take(module, fat_binary(n).data()); }, drop},
      {"fat-binary-in-a-file", [=](std::size_t n) { return take_from_file(module_file, fat_binary(n)); }, drop},
      {"fat-binary-wrapped", [](std::size_t n) { return take_wrapped(load_fat, fat_binary(n)); }, drop},
      {"library", [=](std::size_t n) { return take(whole, cubin(n).data()); }, drop, 0, 1, kData},
      {"library-in-a-file", [=](std::size_t n) { return take_from_file(whole_file, cubin(n)); }, drop, 0, 1, kFile},
      {"library-fat-binary", [=](std::size_t n) { return take(whole, fat_binary(n).data()); }, drop, 0, 1, kData},
      {"library-fat-binary-in-a-file", [=](std::size_t n) { return take_from_file(whole_file, fat_binary(n)); }, drop,
       0, 1, kFile},
      {"library-fat-binary-wrapped", [=](std::size_t n) { return take_wrapped(whole, fat_binary(n)); }, drop, 0, 1,
       kData},
  };
}

}  // namespace ration::workload
