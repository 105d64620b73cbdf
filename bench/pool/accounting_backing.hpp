// A device that only accounts: nothing is mapped anywhere, so what is measured is the pool itself. Its calls can be
// given the time that they take on a card.
#pragma once

#include <chrono>
#include <cstdint>

#include "pool/backing.hpp"

namespace ration::bench {

/// Time that each call takes.
struct Latency {
  std::chrono::nanoseconds create{0}, map_batch{0}, unmap_batch{0}, destroy{0};
};

class AccountingBacking final : public pool::Backing {
 public:
  explicit AccountingBacking(Bytes capacity, Latency latency = {}) : capacity_(capacity), latency_(latency) {}

  pool::Outcome reserve(Bytes, std::uint64_t& base) override {
    base = std::uint64_t{1} << 40;
    return count({});
  }
  pool::Outcome create(pool::Granule& out) override {
    if (taken_ + kGranule > capacity_) return pool::Outcome::kOutOfMemory;
    taken_ += kGranule;
    out = ++last_;
    return count(latency_.create);
  }
  void destroy(pool::Granule) override {
    taken_ -= kGranule;
    (void)count(latency_.destroy);
  }
  pool::Outcome map(std::uint64_t, const pool::Granule*, std::size_t granules) override {
    calls_ += granules;  // and one that makes them accessible
    return count(latency_.map_batch);
  }
  pool::Outcome unmap(std::uint64_t, Bytes) override { return count(latency_.unmap_batch); }
  pool::Outcome order(pool::Stream, pool::Stream) override { return count({}); }
  pool::Outcome finish() override { return count({}); }
  Bytes available() override { return capacity_ - taken_; }

 private:
  pool::Outcome count(std::chrono::nanoseconds time) {
    ++calls_;
    if (time.count() > 0) {
      const auto until = std::chrono::steady_clock::now() + time;
      while (std::chrono::steady_clock::now() < until) {
      }
    }
    return pool::Outcome::kOk;
  }
  Bytes capacity_, taken_;
  Latency latency_;
  std::uint64_t last_ = 0;
};

}  // namespace ration::bench
