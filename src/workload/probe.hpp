// Takes memory in every way there is, each until denied.
#pragma once

#include <cstddef>

namespace ration::workload {

/// One line a way: name, bytes obtained in pieces of `request`, bytes left over, the refusal, whether all came back.
int probe(std::size_t request);

}  // namespace ration::workload
