// Takes memory in every way there is, each until denied.
#pragma once

#include <cstddef>

namespace ration::workload {

/// Which ways are tried.
enum class Ways {
  kAll,
  kInside,       ///< but those of children, which are held under `ration run` alone
  kOtherDevice,  ///< those that take memory of the second device, and no others
};

/// One line a way: name, bytes obtained in pieces of `request`, bytes left over, the refusal, whether all came back. On
/// standard error one line a way that cannot be tried here.
int probe(std::size_t request, Ways ways);

}  // namespace ration::workload
