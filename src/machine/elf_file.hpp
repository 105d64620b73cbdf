// Reads the identity of an ELF file without running or loading it. Used to find out before a program starts whether the
// dynamic loader can put the guard into it.
#pragma once

#include <optional>
#include <string>

namespace ration::machine {

struct ElfFile {
  std::string problem;       ///< why the loader of this machine's programs cannot load it; empty if it can
  std::string interpreter;   ///< the dynamic loader with which the kernel starts it; empty if none
  bool has_dynamic = false;  ///< true for a file with a dynamic section, as every shared library has one
};

/// Reads the file; absent if it cannot be read.
[[nodiscard]] std::optional<ElfFile> read_elf(const std::string& path);

/// Returns the text after `#!` in the first line of a script; absent if the file is not a script.
[[nodiscard]] std::optional<std::string> script_interpreter(const std::string& path);

/// Returns true if the text occurs anywhere in the file, unless the file is larger than any C library.
[[nodiscard]] bool has_text(const std::string& path, const std::string& text);

/// Returns why the file cannot be preloaded as a shared library; empty if it can.
[[nodiscard]] std::string why_not_preloadable(const std::string& path);

}  // namespace ration::machine
