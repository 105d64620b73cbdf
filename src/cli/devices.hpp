// The devices of this machine as the management library names them. Used by the verbs.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "ledger/book.hpp"

namespace ration::cli {

struct Device {
  int index = 0;
  std::string uuid;  ///< as printed: GPU-…
  ledger::DeviceUuid bytes{};
  std::string name;
  Bytes total;
  Bytes free;
};

/// `library_folder`: where libnvidia-ml.so.1 is, or empty for the loader's own search. E1403 where there is none.
[[nodiscard]] Result<std::vector<Device>> list_devices(const std::string& library_folder);

}  // namespace ration::cli
