// Programs that have others started elsewhere: by a server, on another host, in a container. A process started there
// has no guard, so the book notes that the workload asked for it. Used by exec_route.cpp. Promises: safe in a child of
// vfork(); no lock, no heap; errno is preserved.
#pragma once

namespace ration::guard {

/// Notes in the book that `program` is started with the arguments `words`, if it is one of those.
void note_launcher(const char* program, char* const* words) noexcept;

}  // namespace ration::guard
