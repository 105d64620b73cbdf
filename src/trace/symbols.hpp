#pragma once
// Names of functions by their place in a program or a library. Used where call stacks of a recording become text.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ration::trace {

/// The functions in ELF files. Each file is read once. Not thread-safe.
class Symbols {
 public:
  /// Describes the code at `offset` of a file: `train_step (libmodel.so+0x1234)`, or `libmodel.so+0x1234` if the file
  /// cannot be read or names no function there. An empty `path` gives `0x1234`.
  [[nodiscard]] std::string describe(const std::string& path, std::uint64_t offset);

 private:
  struct Function {
    std::uint64_t from, size;
    std::size_t name;  // offset of the name in File::names
  };
  struct File {
    std::vector<Function> functions;  // by `from`
    std::string names;                // each ends with a zero
  };
  static File read(const std::string& path);

  std::map<std::string, File> files_;
};

}  // namespace ration::trace
