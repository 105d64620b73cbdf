// Marks the moments in which the book and the driver may differ: between an entry in the one and the other's. Used by
// the hooks that take and release memory, and by exported.cpp, which compares the two.
#pragma once

namespace ration::shim {

/// While one lives, what its thread has entered in the book and what the driver has given may differ: no proof is read
/// off them meanwhile. Costs nothing until the process has exported something.
class InFlight {
 public:
  InFlight() noexcept;
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  bool counted_;
};

/// While one lives, its thread's own InFlight do not count: it sleeps, or looks for proof, with nothing half done.
class NotInFlight {
 public:
  NotInFlight() noexcept;
  ~NotInFlight();
  NotInFlight(const NotInFlight&) = delete;
  NotInFlight& operator=(const NotInFlight&) = delete;

 private:
  int own_;
};

}  // namespace ration::shim
