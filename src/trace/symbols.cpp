#include "trace/symbols.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/file.hpp"
#include "base/whole_file.hpp"

namespace ration::trace {
namespace {

/// The length to which longer names, such as those of templates, are cut.
constexpr std::size_t kMostName = 160;

/// Returns the name of a function without its parameters: `net::train(int) const` is `net::train`.
std::string without_parameters(std::string text) {
  int depth = 0;
  for (std::size_t at = text.rfind(')'); at != std::string::npos && at > 0; --at) {
    depth += text[at] == ')' ? 1 : text[at] == '(' ? -1 : 0;
    if (depth == 0) return text.substr(0, at);
  }
  return text;
}

std::string readable(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> clear(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  std::string text = status == 0 ? without_parameters(clear.get()) : name;
  if (text.size() > kMostName) text = text.substr(0, kMostName) + "…";
  return text;
}

/// Reads `size` bytes of a file at an offset. Does not map them, because the file may be truncated meanwhile. Returns
/// an empty text if the file has fewer bytes, or `size` is too large.
std::string bytes_at(const FileDescriptor& file, std::uint64_t offset, std::uint64_t size) {
  constexpr std::uint64_t kMost = std::uint64_t{128} << 20;  // the names in the largest libraries take 60 MB
  struct stat status {};
  if (size > kMost || ::fstat(file.get(), &status) != 0 || offset > static_cast<std::uint64_t>(status.st_size) ||
      size > static_cast<std::uint64_t>(status.st_size) - offset)
    return {};
  std::string bytes(size, '\0');
  const ssize_t got = ::pread(file.get(), bytes.data(), size, static_cast<off_t>(offset));
  return got == static_cast<ssize_t>(size) ? bytes : std::string();
}

template <typename Value>
std::vector<Value> values_at(const FileDescriptor& file, std::uint64_t offset, std::uint64_t count) {
  const std::string bytes = bytes_at(file, offset, count * sizeof(Value));
  std::vector<Value> values(bytes.size() / sizeof(Value));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

Symbols::File Symbols::read(const std::string& path) {
  File read;
  const auto file = open_regular(path);
  if (!file) return read;
  const auto header = values_at<Elf64_Ehdr>(*file, 0, 1);
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0 ||
      header[0].e_ident[EI_CLASS] != ELFCLASS64)
    return read;
  const auto sections = values_at<Elf64_Shdr>(*file, header[0].e_shoff, header[0].e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if ((section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) || section.sh_link >= sections.size())
      continue;
    const Elf64_Shdr& texts = sections[section.sh_link];
    const std::size_t first = read.names.size();
    read.names += bytes_at(*file, texts.sh_offset, texts.sh_size);
    const std::size_t length = read.names.size() - first;
    read.names += '\0';
    for (const Elf64_Sym& symbol :
         values_at<Elf64_Sym>(*file, section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_size != 0 && symbol.st_name < length)
        read.functions.push_back({symbol.st_value, symbol.st_size, first + symbol.st_name});
    }
  }
  std::stable_sort(read.functions.begin(), read.functions.end(),
                   [](const Function& a, const Function& b) { return a.from < b.from; });
  return read;
}

std::string Symbols::describe(const std::string& path, std::uint64_t offset) {
  if (path.empty()) return fmt::format("{:#x}", offset);
  const auto [file, is_new] = files_.try_emplace(path);
  if (is_new) file->second = read(path);
  const std::string place = fmt::format("{}+{:#x}", path.substr(path.rfind('/') + 1), offset);
  const auto& functions = file->second.functions;
  const auto after = std::upper_bound(functions.begin(), functions.end(), offset,
                                      [](std::uint64_t at, const Function& each) { return at < each.from; });
  if (after == functions.begin()) return place;
  const Function& function = *(after - 1);
  if (offset - function.from >= function.size) return place;
  return fmt::format("{} ({})", readable(file->second.names.c_str() + function.name), place);
}

}  // namespace ration::trace
