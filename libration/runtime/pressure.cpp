#include "runtime/pressure.hpp"

namespace ration::runtime {
namespace {

thread_local bool is_inside = false;

}  // namespace

std::uint64_t Pressure::add(Callback callback) {
  const std::lock_guard guard(mutex_);
  callbacks_.emplace(++last_, std::move(callback));
  return last_;
}

void Pressure::remove(std::uint64_t number) {
  decltype(callbacks_)::node_type removed;  // destroyed outside the lock: its destructor may call any function here
  {
    const std::lock_guard guard(mutex_);
    removed = callbacks_.extract(number);
  }
  if (!is_inside) const std::unique_lock wait(running_);
}

bool Pressure::tell(std::uint64_t wanted) {
  if (is_inside) return false;
  const std::shared_lock running(running_);
  std::map<std::uint64_t, Callback> now;
  {
    const std::lock_guard guard(mutex_);
    now = callbacks_;
  }
  is_inside = true;
  try {
    for (const auto& [number, callback] : now) callback(wanted);
  } catch (...) {
    is_inside = false;
    throw;
  }
  is_inside = false;
  return !now.empty();
}

}  // namespace ration::runtime
