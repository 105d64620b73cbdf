// Reads the identity of an ELF file without running or loading it. Used to determine beforehand whether the dynamic
// loader can put the guard into a program.
#pragma once

#include <optional>
#include <string>

namespace ration::machine {

struct ElfFile {
  std::string problem;       ///< why the loader of this machine's programs cannot load it; empty: it can
  std::string interpreter;   ///< the dynamic loader with which the kernel starts it; empty: none
  bool has_dynamic = false;  ///< has a dynamic section, as every shared library does
};

/// Reads the file. Absent: it cannot be read.
[[nodiscard]] std::optional<ElfFile> read_elf(const std::string& path);

/// Returns the text after `#!` in the first line of a script, as far as the kernel reads it. Absent: not a script.
[[nodiscard]] std::optional<std::string> script_interpreter(const std::string& path);

/// Returns true if those bytes occur anywhere in the file.
[[nodiscard]] bool has_text(const std::string& path, const std::string& text);

/// Returns why that file cannot be preloaded as a shared library; empty: it can.
[[nodiscard]] std::string why_not_preloadable(const std::string& path);

}  // namespace ration::machine
