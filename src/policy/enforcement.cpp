#include "policy/enforcement.hpp"

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

namespace ration::policy {
namespace {

std::string in_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t colon = std::min(path.find(':', at), path.size());
    const std::string candidate = path.substr(at, colon - at) + "/" + program;
    at = colon + 1;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return program;
}

// The interpreter of a `#!` line; with env, the program that it will look up.
std::string interpreter(const std::string& line) {
  std::vector<std::string> words;
  for (std::size_t at = 2; at < line.size();) {
    const std::size_t start = line.find_first_not_of(" \t", at);
    if (start == std::string::npos) break;
    at = std::min(line.find_first_of(" \t\n\r", start), line.size());
    words.push_back(line.substr(start, at - start));
    ++at;
  }
  if (words.empty()) return {};
  if (!words.front().ends_with("/env")) return words.front();
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].front() != '-' && words[i].find('=') == std::string::npos) return in_path(words[i]);
  }
  return words.front();
}

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#else
constexpr Elf64_Half kMachine = EM_AARCH64;
#endif

std::string why_not(const std::string& path, std::ifstream& file) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0 && ::geteuid() != 0) {
    return "it is set-uid or set-gid, and the loader preloads nothing into such programs";
  }
  if (::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0 && ::geteuid() != 0) {
    return "it has file capabilities, and the loader preloads nothing into such programs";
  }
  Elf64_Ehdr header{};
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return "it is not an ELF program";
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine) {
    return "it was built for another kind of processor than the guard";
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff) + i * header.e_phentsize);
    if (!file.read(reinterpret_cast<char*>(&part), sizeof part)) return "its program headers cannot be read";
    if (part.p_type != PT_INTERP) continue;
    std::string loader(part.p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(part.p_offset));
    if (part.p_filesz > 4096 || !file.read(loader.data(), static_cast<std::streamsize>(loader.size())))
      return "its loader cannot be read";
    return loader.find("musl") == std::string::npos ? "" : "it uses the musl C library; the guard is built for glibc";
  }
  return "it is statically linked, so no library can stand in front of the driver";
}

}  // namespace

std::optional<Enforcement> examine_program(const std::string& program) {
  Enforcement result{in_path(program), {}};
  for (int depth = 0; depth < 5; ++depth) {
    std::ifstream file(result.program, std::ios::binary);
    char start[2] = {};
    if (!file.read(start, 2)) return std::nullopt;
    if (start[0] != '#' || start[1] != '!') {
      result.escape = why_not(result.program, file);
      return result;
    }
    file.seekg(0);
    std::string line;
    std::getline(file, line);
    result.program = interpreter(line);
    if (result.program.empty()) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace ration::policy
