// Programs that have others started elsewhere: by a server, on another host, in a container. What starts there has no
// guard, so the book notes that a process of the workload asked for it. Used by exec_route.cpp. Promise: safe in a
// child of vfork(), no lock, no heap; nothing of errno is lost by it.
#pragma once

namespace ration::shim {

/// Notes in the book that `program` is started with `words`, if it is one of those.
void note_launcher(const char* program, char* const* words) noexcept;

}  // namespace ration::shim
