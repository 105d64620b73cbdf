// Sizes as people write and read them. Used by everything that takes a size from a person or shows one.
// Promises: a number without a unit is refused (TensorFlow means MiB, PyTorch a fraction, others bytes); nothing
// overflows silently; any text at all may be given.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace ration {

/// `4GiB 4G 4g 512MiB 8GB(=10^9) 50% max-1GiB unlimited`: G, M and K are binary, as in docker and systemd; `%` is of
/// `device_total`. Errors E1101 (no unit), E1102 (no size), E1103 (a fraction).
[[nodiscard]] Result<Bytes> parse_size(std::string_view text, Bytes device_total);

/// Three significant digits and an IEC unit: `3.61 GiB`.
[[nodiscard]] std::string format_size(Bytes size);

}  // namespace ration
