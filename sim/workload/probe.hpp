// The probe, which takes memory in every way that the driver offers, each time until memory is denied.
#pragma once

#include <cstddef>

namespace ration::workload {

/// The ways that the probe tries.
enum class Ways {
  kAll,
  kInside,       ///< all except those of children, which are held only under `ration run`
  kOtherDevice,  ///< only those that take memory of the second device
};

/// Tries the ways and prints one line for each: its name, the bytes obtained in pieces of `request`, the bytes that
/// were still free, the error of the denial, and whether all memory came back. Prints one line on standard error for
/// each way that cannot be tried here.
int probe(std::size_t request, Ways ways);

}  // namespace ration::workload
