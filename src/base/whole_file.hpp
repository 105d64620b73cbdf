// Small files that others read while they are written: specifications of devices, states, configurations. Promises:
// whoever reads one finds the old content or the new one, whenever the writer dies; no link is written through.
#pragma once

#include <sys/types.h>

#include <string>

namespace ration {

/// False: `path` is as it was, and errno says why. `path`.new is used meanwhile.
[[nodiscard]] bool write_whole(const std::string& path, const std::string& content, mode_t mode);

}  // namespace ration
