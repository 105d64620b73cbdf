// What an ELF file says of itself, read without running or loading it. Used to tell beforehand whether the dynamic
// loader can put the guard into a program.
#pragma once

#include <optional>
#include <string>

namespace ration::machine {

struct ElfFile {
  std::string problem;       ///< why the loader of this machine's programs cannot take it; empty: it can
  std::string interpreter;   ///< the dynamic loader that the kernel starts it with; empty: none
  bool has_dynamic = false;  ///< has a dynamic section, as every shared library
};

/// Absent: it cannot be read.
[[nodiscard]] std::optional<ElfFile> read_elf(const std::string& path);

/// Returns what stands behind `#!` in the first line of a script, as far as the kernel reads it. Absent: it is no
/// script.
[[nodiscard]] std::optional<std::string> script_interpreter(const std::string& path);

/// Whether those bytes stand anywhere in the file.
[[nodiscard]] bool has_text(const std::string& path, const std::string& text);

/// Why that file cannot be preloaded as a shared library; empty: it can.
[[nodiscard]] std::string why_not_preloadable(const std::string& path);

}  // namespace ration::machine
