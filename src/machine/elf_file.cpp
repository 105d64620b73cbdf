#include "machine/elf_file.hpp"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/whole_file.hpp"

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
  const auto open = open_regular(path);
  if (!open) return std::nullopt;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path_of(*open), error);
  std::ifstream file(path_of(*open), std::ios::binary);
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

std::optional<std::string> script_interpreter(const std::string& path) {
  const auto open = open_regular(path);
  if (!open) return std::nullopt;
  std::array<char, 4096> start;  // larger than the 256 bytes that the kernel reads
  const ssize_t got = ::read(open->get(), start.data(), start.size());
  const std::string_view text(start.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (!text.starts_with("#!")) return std::nullopt;
  return std::string(text.substr(2, std::min(text.find('\n'), text.size()) - 2));
}

bool has_text(const std::string& path, const std::string& text) {
  std::error_code error;
  constexpr std::uintmax_t kMaxSize = std::uintmax_t{64} << 20;  // a C library has 2 MB
  const auto open = open_regular(path);
  if (!open || std::filesystem::file_size(path_of(*open), error) > kMaxSize || error) return false;
  // Reads small blocks, because each start of a container reads a C library, whose version names stand near its
  // beginning.
  constexpr std::size_t kBlock = std::size_t{16} << 10;
  std::ifstream file(path_of(*open), std::ios::binary);
  std::string bytes;
  do {
    bytes.erase(0, bytes.size() - std::min(bytes.size(), text.size()));  // the text may span two blocks
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
