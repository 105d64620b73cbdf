// Reads the identity of an ELF file without running or loading it. Used to find out before a program starts whether the
// dynamic loader can put the guard into it.
#pragma once

#include <optional>
#include <string>

namespace ration::machine {

struct ElfFile {
  std::string problem;       ///< why the loader of this machine's programs cannot load it; empty if it can
  std::string interpreter;   ///< the dynamic loader with which the kernel starts it; empty if none
  bool has_dynamic = false;  ///< true if the file has a dynamic section, as every shared library does
};

/// Reads the file; absent if it cannot be read.
[[nodiscard]] std::optional<ElfFile> read_elf(const std::string& path);

/// Returns the text after `#!` in the first line of a script; absent if the file is not a script.
[[nodiscard]] std::optional<std::string> script_interpreter(const std::string& path);

/// Returns true if the text occurs anywhere in the file. Returns false for a file that is larger than any C library.
[[nodiscard]] bool has_text(const std::string& path, const std::string& text);

/// Returns why the file cannot be preloaded as a shared library; empty if it can.
[[nodiscard]] std::string why_not_preloadable(const std::string& path);

}  // namespace ration::machine
