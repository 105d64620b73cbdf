// Makes recordings from the files in which frameworks describe their memory. Used where recordings are opened.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "trace/memory_recording.hpp"

namespace ration::trace {

/// A format of another program.
struct Importer {
  bool (*begins)(std::string_view beginning);  ///< returns true if a file with this beginning may have the format
  Result<std::unique_ptr<MemoryRecording>> (*read)(const std::string& path, std::string content);
};

/// Returns the importer for a file with this beginning, or nullptr.
[[nodiscard]] const Importer* importer_of(std::string_view beginning);

/// Reads a pickle of torch.cuda.memory._snapshot(). The recording has the tensors, and the segments around them as
/// pools of the process. Memory that was live before the snapshot's history began counts as allocated when the
/// recording begins. Fails with E1811.
[[nodiscard]] Result<std::unique_ptr<MemoryRecording>> read_pytorch_snapshot(const std::string& path,
                                                                             std::string content);

/// Reads a dump of TensorFlow's allocator (TF_BFC_MEMORY_DUMP): the tensors of one moment, and the allocator's regions.
/// Fails with E1811.
[[nodiscard]] Result<std::unique_ptr<MemoryRecording>> read_tensorflow_dump(const std::string& path,
                                                                            std::string content);

}  // namespace ration::trace
