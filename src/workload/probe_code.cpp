// Ways of taking memory by loading code: in each form, in files, by libraries, by images that say less than they take.
#include <elf.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "workload/driver_calls.hpp"
#include "workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

std::vector<CUmodule> modules;
std::vector<CUlibrary> libraries;

template <typename Part>
void append(std::string& image, const Part& part) {
  image.append(reinterpret_cast<const char*>(&part), sizeof part);
}

/// How a cubin says what it takes.
struct Crafted {
  bool many_sections = false;   // their number and their names' are in the first one
  std::uint64_t alignment = 1;  // of the second of two variables
};

/// A cubin with a `__device__` array of that size, and of nothing else.
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

/// A fat binary with the cubin for this device, and a small one for a later one.
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

CUresult kept(CUresult result, CUmodule module) {
  if (result == CUDA_SUCCESS) modules.push_back(module);
  return result;
}
CUresult load(const std::string& image) {
  CUmodule module = nullptr;
  const CUresult result = DRIVER(cuModuleLoadData)(&module, image.data());
  return kept(result, module);
}
CUresult load_fat(const void* image) {
  CUmodule module = nullptr;
  const CUresult result = DRIVER(cuModuleLoadFatBinary)(&module, image);
  return kept(result, module);
}
CUresult load_library(const std::string& image) {
  CUlibrary loaded = nullptr;
  const CUresult result = DRIVER(cuLibraryLoadData)(&loaded, image.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == CUDA_SUCCESS) libraries.push_back(loaded);
  return result;
}

/// A file of its own for each image.
template <typename Load>
CUresult from_file(const std::string& image, Load&& load_file) {
  char path[] = "/tmp/ration-probe-XXXXXX";
  const int file = ::mkstemp(path);
  const bool written = file >= 0 && ::write(file, image.data(), image.size()) == static_cast<ssize_t>(image.size());
  const CUresult result = written ? load_file(path) : CUDA_ERROR_UNKNOWN;
  if (file >= 0) {
    ::close(file);
    ::unlink(path);
  }
  return result;
}

void unload_modules() {
  for (const CUmodule module : modules) DRIVER(cuModuleUnload)(module);
  modules.clear();
}
void unload_libraries() {
  for (const CUlibrary each : libraries) DRIVER(cuLibraryUnload)(each);
  libraries.clear();
}

}  // namespace

std::vector<Way> code_ways() {
  return {
      {"code", [](std::size_t n) { return load(cubin(n)); }, unload_modules},
      {"code-in-a-file",
       [](std::size_t n) {
         return from_file(cubin(n), [](const char* path) {
           CUmodule module = nullptr;
           const CUresult result = DRIVER(cuModuleLoad)(&module, path);
           return kept(result, module);
         });
       },
       unload_modules},
      {"code-as-fat-binary", [](std::size_t n) { return load_fat(cubin(n).data()); }, unload_modules},
      {"fat-binary", [](std::size_t n) { return load(fat_binary(n)); }, unload_modules},
      {"fat-binary-wrapped",
       [](std::size_t n) {
         const std::string image = fat_binary(n);
         const struct {
           std::uint32_t magic = 0x466243b1, version = 1;
           const void* data;
           const void* more = nullptr;
         } wrapper{0x466243b1, 1, image.data(), nullptr};
         return load_fat(&wrapper);
       },
       unload_modules},
      {"code-many-sections",
       [](std::size_t n) {
         return load(cubin(n, {true, 1}));
       },
       unload_modules},
      {"code-aligned",
       [](std::size_t n) {
         return load(cubin(n, {false, n / 2}));
       },
       unload_modules},
      {"library", [](std::size_t n) { return load_library(cubin(n)); }, unload_libraries},
      {"library-fat-binary", [](std::size_t n) { return load_library(fat_binary(n)); }, unload_libraries},
      {"library-in-a-file",
       [](std::size_t n) {
         return from_file(cubin(n), [](const char* path) {
           CUlibrary loaded = nullptr;
           const CUresult result =
               DRIVER(cuLibraryLoadFromFile)(&loaded, path, nullptr, nullptr, 0, nullptr, nullptr, 0);
           if (result == CUDA_SUCCESS) libraries.push_back(loaded);
           return result;
         });
       },
       unload_libraries},
  };
}

}  // namespace ration::workload
