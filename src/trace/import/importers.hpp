// Reads what frameworks write about their memory into recordings. Used where recordings are opened.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "trace/memory_recording.hpp"

namespace ration::trace {

/// A format of another program.
struct Importer {
  bool (*begins)(std::string_view beginning);  ///< true if a file may be one that begins so
  Result<std::unique_ptr<MemoryRecording>> (*read)(const std::string& path, std::string content);
};

/// Returns the importer of a file that begins so, or nullptr.
[[nodiscard]] const Importer* importer_of(std::string_view beginning);

/// Reads a pickle of torch.cuda.memory._snapshot(): tensors, in segments that pools of the process reserve. What was
/// live before its history began is taken at the beginning. Fails with E1811.
[[nodiscard]] Result<std::unique_ptr<MemoryRecording>> read_pytorch_snapshot(const std::string& path,
                                                                             std::string content);

/// Reads a dump of TensorFlow's allocator (TF_BFC_MEMORY_DUMP): the tensors of one moment, in its regions. Fails with
/// E1811.
[[nodiscard]] Result<std::unique_ptr<MemoryRecording>> read_tensorflow_dump(const std::string& path,
                                                                            std::string content);

}  // namespace ration::trace
