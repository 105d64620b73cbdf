// Who does nothing, what to do about it, and whose turn it is where there are more notebooks than memory. Used by the
// daemon, which tells what it saw and carries out what is decided. Tests: tests/unit/decisions/idle_test.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace ration::node {

enum class IdleAction { kReport, kTrim, kSuspend };

struct IdlePolicy {
  std::uint64_t after_ns = 1'800'000'000'000;  ///< 30 minutes
  int below_percent = 1;                       ///< computing up to this share of the time counts as nothing
  IdleAction action = IdleAction::kReport;
};

/// What one look at a workload saw.
struct WorkloadFacts {
  std::string id;
  Bytes used;
  std::uint64_t last_activity_ns = 0;      ///< its last charge or refund, or its start
  std::optional<int> utilisation_percent;  ///< of its processes since the last look; absent: the driver does not tell
};

struct IdleDecision {
  std::string id;
  IdleAction action = IdleAction::kReport;
  std::uint64_t idle_ns = 0;
  std::string reason;  ///< `no memory taken or given back and no computing for 47m 00s`
};

/// Promises: a workload is idle only since it last computed or touched memory, whichever is later; each idle time is
/// answered once; nobody is suspended of whom it is not known whether it computes (training may hold its memory still
/// for hours), nor trimmed who holds nothing: both are only reported then.
class IdleWatch {
 public:
  /// Absent: not idle for long enough, or answered already.
  std::optional<IdleDecision> look(const WorkloadFacts& facts, const IdlePolicy& policy, std::uint64_t now_ns);
  void forget(const std::string& id);
  /// Absent: never seen.
  [[nodiscard]] std::optional<std::uint64_t> idle_ns(const std::string& id, std::uint64_t now_ns) const;

 private:
  struct Seen {
    std::uint64_t busy_ns = 0;  ///< when it last computed or touched memory
    bool answered = false;
  };
  std::map<std::string, Seen> seen_;
};

/// Somebody who came back to the device stays at least so long, however idle, before it can be suspended again: several
/// times what it costs to move some GiB out and in (a second or two a direction over PCIe).
inline constexpr std::uint64_t kMinimumResidence = 30'000'000'000;

struct ResidencyActions {
  std::vector<std::string> suspend, resume;
};

/// Takes turns on one device. Promises: what is on it, or on its way out or in, never exceeds the capacity; nobody who
/// is active or came within kMinimumResidence is suspended; of the others the longest idle go first, no more of them
/// than the asker needs, and nobody for an asker whose room cannot be made now; who asked first comes first, and nobody
/// is refused. So everybody gets a turn as long as those who are active become idle at some time.
class Residency {
 public:
  explicit Residency(Bytes capacity) : capacity_(capacity) {}
  void set_capacity(Bytes capacity) { capacity_ = capacity; }

  /// A workload that is not on the device yet. `size`: the most it may hold while it is there. E1104: larger than the
  /// device.
  Result<void> add(const std::string& id, Bytes size);
  void remove(const std::string& id);
  /// It has something to do. True: it is on the device and active from now on; else it waits for `resume`.
  bool ask(const std::string& id, std::uint64_t now_ns);
  /// It has nothing to do any more.
  void rest(const std::string& id, std::uint64_t now_ns);
  /// What a step ordered has been done. `resumed` right after `add`: it runs there already.
  void suspended(const std::string& id);
  void resumed(const std::string& id, std::uint64_t now_ns);

  [[nodiscard]] ResidencyActions step(std::uint64_t now_ns);

  /// When a step can next decide something by the passing of time alone; absent: only an event can change anything.
  [[nodiscard]] std::optional<std::uint64_t> next_change(std::uint64_t now_ns) const;
  /// 1 is next; 0: it does not wait.
  [[nodiscard]] std::size_t position(const std::string& id) const;
  /// Of the capacity, taken or on its way out or in.
  [[nodiscard]] Bytes taken() const;

 private:
  enum class State { kAway, kComing, kHere, kLeaving };
  struct Workload {
    Bytes size;
    State state = State::kAway;
    bool active = false;
    std::uint64_t idle_since = 0, here_since = 0;
  };
  [[nodiscard]] std::vector<std::string> sacrifices(Bytes lacking, std::uint64_t now) const;

  Bytes capacity_;
  std::map<std::string, Workload> workloads_;
  std::vector<std::string> asking_;  ///< in the order in which they asked
};

}  // namespace ration::node
