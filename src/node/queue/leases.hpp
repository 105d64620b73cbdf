// Leases of running commands: the queue of `ration run --wait`, tied to the processes that wait and the workloads that
// came of it, and how long such programs ran before. Used by the daemon. Promises: whoever waits and dies leaves the
// queue, and whoever started gives the room back when its workload ends; what is granted fits beside everything that
// runs; who was suspended waits for its place like everybody else, from the moment when it works again; who waits keeps
// its place, and who runs its lease, when the daemon is started again.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/process.hpp"
#include "node/events/event.hpp"
#include "node/limits/promises.hpp"
#include "node/queue/queue.hpp"
#include "node/queue/wait_histogram.hpp"
#include "node/state/state_file.hpp"

namespace ration::node {

struct LeaseWish {
  std::string tenant, user, command, gpu;  ///< gpu: `auto`, an index, several: `0,1`
  std::string name;                        ///< of the workload that will run; without a number where it was given none
  std::uint32_t owner = 0;
  ProcessIdentity waiter;  ///< leaves the queue when it is dead
  Bytes bytes, guarantee;
  int priority = 0;
  std::optional<std::uint64_t> wait_ns;  ///< absent: for ever
  std::string key;                       ///< its asker's word for it; empty: none
};

enum class LeaseState {
  kWaiting,
  kGranted,    ///< and not taken up yet
  kRunning,    ///< its workload runs
  kSuspended,  ///< its workload has no place, and asks for none
  kOver,       ///< its wait timed out, or it was never taken up
};

/// Who keeps how much of a device from those who wait: what it was promised, or holds where that is more.
struct Taker {
  std::string who;
  Bytes taken;
  std::optional<Bytes> used;  ///< absent: nobody is there to use it
};

/// A lease at this moment.
struct LeaseView {
  std::string id;
  LeaseWish wish;
  std::uint64_t submitted_ns = 0;  ///< time of day
  LeaseState state = LeaseState::kWaiting;
  std::optional<std::vector<int>> gpus{};        ///< where it was granted
  std::string reason{};                          ///< what it waits for, or whom it passed; empty: neither
  std::optional<std::vector<Taker>> taken_by{};  ///< who has the device that it waits for
  std::size_t position = 0, of = 0;              ///< in the queue; 0: in none
  std::optional<WaitEstimate> estimate{};        ///< of one that waits
};

struct CancelledLease {
  std::string id, by;
  std::uint32_t owner = 0;
};

class Leases {
 public:
  /// `file`: where those that wait are kept; empty: nowhere. A corrupt file is treated as absent: then they ask again.
  explicit Leases(std::string file = "");
  /// What to tell of a damaged file; empty: it was none.
  [[nodiscard]] const std::string& lost() const { return file_.damage(); }

  /// Of one user at a time, waiting or granted.
  static constexpr std::size_t kMaxPerUser = 256;

  /// The id, `q-5`: of the one that stands where its waiter asked before under the same key, as whoever got no answer
  /// does. E1104 E1105 E1407, E1528: too many of that user.
  [[nodiscard]] Result<std::string> submit(const LeaseWish& wish, std::uint64_t now_ns);
  /// Whether its waiter asked for it before, and still has it.
  [[nodiscard]] bool knows(const LeaseWish& wish) const { return !id_of(wish).empty(); }
  /// False: no such lease, or not of that user (an operator may cancel any). `by` is told to who waited.
  bool cancel(const std::string& id, std::optional<std::uint32_t> user, const std::string& by = "");
  /// Of the newest that were cancelled; null: it is none of them.
  [[nodiscard]] const CancelledLease* cancelled(const std::string& id) const;
  /// The workload whose book lies at `path` runs under the lease. False: it was not granted, or belongs to another
  /// user.
  bool take_up(const std::string& id, const std::string& path, std::uint32_t user);

  /// Such a program ran so long, and succeeded: from then on more is known of those that wait and run.
  void learn(const Program& program, std::uint64_t length_ns);

  /// The workload's memory has left its devices: what it had is free for others.
  void leave(const std::string& path);
  /// It wants its place again, on the devices where it was; `because` is told to who asks what it waits for. Who asked
  /// and is not sure of it may leave again, or ask once more.
  void ask_again(const std::string& path, const std::string& because, const Snapshot& snapshot, std::uint64_t now_ns,
                 bool sure = true);
  /// Paths of those that asked again and may return, since the last call.
  [[nodiscard]] std::vector<std::string> take_returning() { return std::exchange(returning_, {}); }

  /// After every tick: what there is now, who died, who may start. `now_ns`: steady_time_ns(), here and above.
  /// `shares`: of what tenants may hold.
  Events step(const Snapshot& snapshot, std::uint64_t now_ns, const TenantShares& shares = {});

  [[nodiscard]] const LeaseQueue& queue() const { return queue_; }
  /// From asking to being granted, of every lease that was granted; those granted at once waited next to nothing.
  [[nodiscard]] const WaitHistogram& waits() const { return waits_; }
  /// Absent: there is none of that id.
  [[nodiscard]] std::optional<LeaseView> view(const std::string& id) const;
  /// Those that wait, in the order in which they will go.
  [[nodiscard]] std::vector<LeaseView> waiting_views() const;

 private:
  struct Entry {
    LeaseWish wish;
    std::uint64_t submitted_ns = 0;
    std::optional<Lease> granted;
    std::string workload;    ///< path of the book that runs under it
    bool over = false;       ///< its wait timed out, or it was granted and never taken up
    bool away = false;       ///< suspended: it has no place now, and asks for none
    bool to_return = false;  ///< made for a workload that wants to come back; over when it is there
    std::string because{};   ///< why it comes back; empty: it starts
  };

  /// Of the one that was asked for before; empty: none.
  [[nodiscard]] std::string id_of(const LeaseWish& wish) const;
  [[nodiscard]] Result<LeaseRequest> request_of(const std::string& id, const LeaseWish& wish,
                                                std::uint64_t submitted_ns) const;
  void drop(const std::string& id);
  void take_back_running();
  void queue_again(std::uint64_t now_ns);
  [[nodiscard]] std::vector<Taker> takers_of(const DeviceView& device, const Snapshot& snapshot) const;
  void save();

  StateFile file_;
  std::uint64_t clock_ahead_ns_ = 0;   // of the time that step() is told, modulo 2^64
  std::map<std::string, Entry> kept_;  ///< read from the file, not queued yet: what the devices have is not known
  RunLengthTable run_lengths_;
  LeaseQueue queue_;
  std::map<int, std::vector<Taker>> devices_;  // of the last step, and by whom they are taken
  std::deque<CancelledLease> cancelled_;       // the newest last
  std::vector<std::string> returning_;
  std::map<std::string, Entry> entries_;
  WaitHistogram waits_;
  std::uint64_t last_ = 0;
};

}  // namespace ration::node
