#include "pool/registry.hpp"

#include <pthread.h>

#include <map>
#include <mutex>

#include "pool/pool.hpp"

namespace ration::pool {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::uint64_t, Pool*> pools;
  std::uint64_t last = 0;
};

// Returns the registry. It is never destroyed, since threads may end and pools may be used after all static destructors
// have run.
Registry& registry() {
  static Registry* made = [] {
    auto* fresh = new Registry;
    ::pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                     [] {
                       for (const auto& [number, pool] : registry().pools) pool->forked();
                       registry().mutex.unlock();
                     });
    return fresh;
  }();
  return *made;
}

}  // namespace

std::uint64_t enter_pool(Pool& pool) {
  const std::lock_guard guard(registry().mutex);
  registry().pools.emplace(++registry().last, &pool);
  return registry().last;
}

void leave_pool(std::uint64_t number) {
  const std::lock_guard guard(registry().mutex);
  registry().pools.erase(number);
}

void with_pool(std::uint64_t number, const std::function<void(Pool&)>& act) {
  const std::lock_guard guard(registry().mutex);
  if (const auto found = registry().pools.find(number); found != registry().pools.end()) act(*found->second);
}

}  // namespace ration::pool
