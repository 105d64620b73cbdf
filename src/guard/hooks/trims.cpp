// Trims that the daemon asks for, in any program. The guard has no thread that waits for such a request. Instead, the
// request is answered by the program's next call that frees memory, asks for the free memory, or waits for the device.
// A program that makes no such call keeps its memory.
#include <atomic>

#include "guard/hooks/governor.hpp"
#include "guard/hooks/graphs.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/while_others_capture.hpp"

namespace ration::guard {
namespace {

// The number of requests that this process has answered. A child after fork holds nothing, so it keeps its parent's
// number.
std::atomic<std::uint64_t> answered{0};

[[gnu::noinline]] void answer(cuda::CUstream stream) noexcept {
  const std::uint64_t asked = book().trim_requests();
  std::uint64_t seen = answered.load(std::memory_order_relaxed);
  if (is_capturing(stream)) return;
  if (asked == seen || !answered.compare_exchange_strong(seen, asked)) return;  // another thread answers
  refresh_pools();
  trim_pools();
  trim_graph_pools();
}

}  // namespace

void trim_if_asked(cuda::CUstream stream) noexcept {
  if (book_usable() && book().trim_requests() != answered.load(std::memory_order_relaxed)) [[unlikely]]
    answer(stream);
}

}  // namespace ration::guard
