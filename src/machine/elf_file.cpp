#include "machine/elf_file.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace ration::machine {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#else
constexpr Elf64_Half kMachine = EM_AARCH64;
#endif

template <typename Header>
bool read_at(std::ifstream& file, std::uint64_t at, Header& out) {
  file.seekg(static_cast<std::streamoff>(at));
  return static_cast<bool>(file.read(reinterpret_cast<char*>(&out), sizeof out));
}

}  // namespace

std::optional<ElfFile> read_elf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;  // opening a pipe waits for its other end
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return std::nullopt;
  ElfFile result;
  const auto with = [&](const char* problem) {
    result.problem = problem;
    return result;
  };
  if (size == 0) return with("it is empty");
  Elf64_Ehdr header{};
  if (!read_at(file, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return with("it is not an ELF program");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine)
    return with("it was built for another kind of processor than the guard");
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    if (!read_at(file, header.e_phoff + static_cast<std::uint64_t>(i) * header.e_phentsize, part) ||
        part.p_offset > size || part.p_filesz > size - part.p_offset)
      return with("it is cut off");
    if (part.p_type == PT_DYNAMIC) result.has_dynamic = true;
    if (part.p_type != PT_INTERP) continue;
    result.interpreter.resize(part.p_filesz < 4096 ? part.p_filesz : 0);
    file.seekg(static_cast<std::streamoff>(part.p_offset));
    file.read(result.interpreter.data(), static_cast<std::streamsize>(result.interpreter.size()));
    result.interpreter.resize(std::strlen(result.interpreter.c_str()));
  }
  return result;
}

bool has_text(const std::string& path, const std::string& text) {
  std::error_code error;
  constexpr std::uintmax_t kMaxSize = std::uintmax_t{64} << 20;  // a C library has 2 MB
  if (!std::filesystem::is_regular_file(path, error) || std::filesystem::file_size(path, error) > kMaxSize || error)
    return false;
  // No more than is needed: each start of a container reads a C library, whose names stand near its beginning.
  constexpr std::size_t kBlock = std::size_t{16} << 10;
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  do {
    bytes.erase(0, bytes.size() - std::min(bytes.size(), text.size()));  // a text may lie across two blocks
    const std::size_t kept = bytes.size();
    bytes.resize(kept + kBlock);
    file.read(bytes.data() + kept, kBlock);
    bytes.resize(kept + static_cast<std::size_t>(file.gcount()));
    if (bytes.find(text) != std::string::npos) return true;
  } while (file);
  return false;
}

std::string why_not_preloadable(const std::string& path) {
  const auto file = read_elf(path);
  if (!file) return "it is not there, or cannot be read";
  if (!file->problem.empty()) return file->problem;
  return file->has_dynamic ? "" : "it is not a shared library";
}

}  // namespace ration::machine
