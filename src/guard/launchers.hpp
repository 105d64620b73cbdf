// Launchers: programs that let a server, another machine or a container start other programs. A process started there
// has no guard, so the book notes that the workload used a launcher. Used by exec_route.cpp. Promises: safe in a child
// of vfork(); no lock, no heap; errno is preserved.
#pragma once

namespace ration::guard {

/// Notes in the book that `program` is started, if it is a launcher with the arguments `words`.
void note_launcher(const char* program, char* const* words) noexcept;

}  // namespace ration::guard
