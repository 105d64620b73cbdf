#include "machine/driver_exports.hpp"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <string_view>

#include "driver/memory_words.hpp"
#include "machine/driver_library.hpp"

namespace ration::machine {
namespace {

constexpr std::string_view kListed[] = {
#define RATION_DRIVER_SYMBOL(index, symbol, ...) #symbol,
#include "driver/driver_table.inc"
#undef RATION_DRIVER_SYMBOL
#define RATION_NVML_SYMBOL(index, symbol, ...) #symbol,
#include "driver/nvml_table.inc"
#undef RATION_NVML_SYMBOL
};

/// Returns the number of dynamic symbols: one past the end of the last chain of the hash table (gABI, DT_GNU_HASH). No
/// table holds the number itself.
std::uint32_t symbol_count(const std::uint32_t* table) {
  const std::uint32_t buckets = table[0], first = table[1], bloom_words = table[2];
  const std::uint32_t* bucket = table + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof *table);
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t last = *std::max_element(bucket, bucket + buckets);
  if (last < first) return first;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

void add_functions(const link_map* object, std::string_view prefix, std::set<std::string>& out) {
  const char* names = nullptr;
  const ElfW(Sym)* symbols = nullptr;
  const std::uint32_t* hash = nullptr;
  for (const ElfW(Dyn)* entry = object->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_GNU_HASH) hash = reinterpret_cast<const std::uint32_t*>(entry->d_un.d_ptr);
  }
  if (names == nullptr || symbols == nullptr || hash == nullptr) return;
  const std::uint32_t count = symbol_count(hash);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string_view name = names + symbols[i].st_name;
    if (symbols[i].st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC && name.starts_with(prefix))
      out.emplace(name);
  }
}

}  // namespace

std::vector<std::string> unlisted_exports(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& [file, prefix] : {std::pair{"libcuda.so.1", "cu"}, {"libnvidia-ml.so.1", "nvml"}}) {
    if (const Library library(folder, file); library) add_functions(library.object(), prefix, names);
  }
  for (const std::string_view listed : kListed) names.erase(std::string(listed));
  std::erase_if(names, [](const std::string& name) { return !driver::may_concern_memory(name.c_str()); });
  return {names.begin(), names.end()};
}

}  // namespace ration::machine
