// An hour of random notebooks that share a card, in simulated time: they grow block by block, work, rest and are
// suspended, come back through the queue, and are looked at late. Nothing here knows how standstill.cpp decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "node/queue/queue.hpp"
#include "node/residency/idle.hpp"
#include "node/residency/standstill.hpp"

namespace ration::node {
namespace {

using namespace ration::literals;

constexpr std::uint64_t kStep = 100 * kMillisecond, kHour = 3600 * kSecond;
constexpr Bytes kBlock = 64_MiB, kCard = 16_GiB;
// Without any progress of anybody while somebody waits: a suspension or two of 16 GiB, and a few late ticks.
constexpr std::uint64_t kNoStandstill = 60 * kSecond;

struct Notebook {
  enum class Does { kClosed, kGrows, kWorks, kRests, kLeaves, kSuspended, kReturns };
  std::string id;
  Does does = Does::kClosed;
  Bytes limit, target, used;
  std::uint64_t until_ns = 0;  ///< of what it does; of one that is away: when it works again
  bool refused = false, asks = false, gave_way = false;
  bool begins = false;               ///< a cell: its work is still to come
  std::uint64_t waits_since_ns = 0;  ///< 0: it does not
  std::uint64_t touched_ns = 0;
};

class Hour {
 public:
  Hour(unsigned seed, bool with_watch) : random_(seed), with_watch_(with_watch) {
    const std::size_t count = 5 + random_() % 8;
    // About half of what the card holds is in use on average; they open within seconds.
    rest_ns_ = count * 2 * kSecond;
    for (std::size_t i = 0; i < count; ++i) {
      Notebook notebook;
      notebook.id = "n" + std::to_string(i);
      notebook.limit = kBlock * (32 + random_() % 33);
      notebook.until_ns = (1 + random_() % 5) * kSecond;
      notebooks_.push_back(notebook);
    }
  }

  /// False: it came to a standstill.
  bool run() {
    std::uint64_t next_tick = kSecond;
    for (now_ = kStep; now_ < kHour; now_ += kStep) {
      std::shuffle(notebooks_.begin(), notebooks_.end(), random_);
      for (Notebook& notebook : notebooks_) live(notebook);
      if (now_ >= next_tick) {
        tick();
        // One in ten comes late.
        next_tick = now_ + (random_() % 10 == 0 ? random_() % (5 * kSecond) : 200 * kMillisecond);
      }
      std::uint64_t used = 0;
      for (const Notebook& notebook : notebooks_) used += on_card(notebook).count();
      EXPECT_LE(used, kCard.count());
      for (const Notebook& notebook : notebooks_)
        if (notebook.waits_since_ns != 0) longest_ = std::max(longest_, now_ - notebook.waits_since_ns);
      const bool somebody_waits = std::any_of(notebooks_.begin(), notebooks_.end(),
                                              [](const Notebook& each) { return each.waits_since_ns != 0; });
      if (!somebody_waits) progress_ns_ = now_;
      if (now_ - progress_ns_ > kNoStandstill) return false;
    }
    return true;
  }

  [[nodiscard]] std::uint64_t longest() const { return longest_; }
  [[nodiscard]] std::size_t broken() const { return broken_; }

 private:
  using Does = Notebook::Does;

  static Bytes on_card(const Notebook& notebook) { return notebook.does == Does::kSuspended ? 0_GiB : notebook.used; }
  [[nodiscard]] Bytes free() const {
    Bytes used;
    for (const Notebook& notebook : notebooks_) used += on_card(notebook);
    return kCard - used;
  }
  std::uint64_t event_subject(std::uint64_t time) { return time / 2 + random_() % time; }
  [[nodiscard]] static std::uint64_t moving_time(const Notebook& notebook) {
    return notebook.used.count() / (1_GiB).count() * 300 * kMillisecond + 100 * kMillisecond;
  }

  void begin_cell(Notebook& notebook) {
    notebook.does = Does::kGrows;
    const std::uint64_t most = notebook.limit.count() / kBlock.count();
    notebook.target = kBlock * (most / 2 + 1 + random_() % (most / 2));
    notebook.used = std::min(notebook.used, notebook.target);
    notebook.asks = false;
    notebook.begins = true;
  }

  void live(Notebook& notebook) {
    switch (notebook.does) {
      case Does::kGrows:
        notebook.refused = false;
        for (int blocks = 0; blocks < 8 && notebook.used < notebook.target && !notebook.refused; ++blocks) {
          notebook.refused = free() < kBlock;
          if (notebook.refused) break;
          notebook.used += kBlock;
          notebook.touched_ns = progress_ns_ = now_;
        }
        if (notebook.refused && notebook.waits_since_ns == 0) notebook.waits_since_ns = now_;
        if (notebook.used < notebook.target) return;
        notebook.waits_since_ns = 0;
        notebook.does = Does::kWorks;
        if (std::exchange(notebook.begins, false)) notebook.until_ns = now_ + event_subject(6 * kSecond);
        return;
      case Does::kWorks:
        notebook.touched_ns = progress_ns_ = now_;
        if (now_ < notebook.until_ns) {
          if (random_() % 8 == 0) {  // gives something back, and wants it again
            notebook.used -= kBlock * (random_() % 4);
            notebook.does = Does::kGrows;
          }
          return;
        }
        notebook.does = Does::kRests;
        notebook.until_ns = now_ + event_subject(rest_ns_);
        return;
      case Does::kClosed:
      case Does::kRests:
        if (now_ >= notebook.until_ns) begin_cell(notebook);
        return;
      case Does::kLeaves:
        if (now_ < moved_at_[notebook.id]) return;
        notebook.does = Does::kSuspended;
        progress_ns_ = now_;
        return;
      case Does::kSuspended:
        notebook.asks = notebook.asks || notebook.gave_way || now_ >= notebook.until_ns;
        if (notebook.asks && notebook.waits_since_ns == 0) notebook.waits_since_ns = now_;
        return;
      case Does::kReturns:
        if (now_ < moved_at_[notebook.id]) return;
        progress_ns_ = now_;
        notebook.touched_ns = now_;
        if (std::exchange(notebook.gave_way, false))
          notebook.does = Does::kGrows, notebook.asks = false;
        else
          begin_cell(notebook);
        return;
    }
  }

  void suspend(Notebook& notebook) {
    notebook.does = Does::kLeaves;
    moved_at_[notebook.id] = now_ + moving_time(notebook);
    (void)queue_.release(notebook.id);
    leased_.erase(notebook.id);
  }

  void tick() {
    const IdlePolicy policy{1, {{2 * kSecond, IdleAction::kSuspend}}};
    for (Notebook& notebook : notebooks_) {
      const bool on_device =
          notebook.does == Does::kWorks || notebook.does == Does::kRests || notebook.does == Does::kGrows;
      if (!on_device) continue;
      const std::uint64_t active = notebook.does == Does::kRests ? notebook.touched_ns : now_;
      if (idle_.decide({notebook.id, notebook.used, active, 0}, policy, now_)) suspend(notebook);
    }
    if (with_watch_) break_standstills();
    return_through_queue();
  }

  void break_standstills() {
    std::vector<StandstillWorkload> all;
    for (const Notebook& notebook : notebooks_) {
      StandstillWorkload one;
      one.id = notebook.id;
      one.on_device = notebook.does == Does::kWorks || notebook.does == Does::kRests || notebook.does == Does::kGrows;
      one.moving = notebook.does == Does::kLeaves || notebook.does == Does::kReturns;
      const bool seen = notebook.refused && notebook.does == Does::kGrows && random_() % 8 != 0;  // else between tries
      one.accounts = {{0, notebook.used, 0_GiB, seen ? WaitsFor::kDevice : WaitsFor::kNothing, {}, {}}};
      if (notebook.does != Does::kClosed) all.push_back(one);
    }
    for (const StandstillDecision& decision : watch_.decide(all, now_)) {
      ++broken_;
      for (Notebook& notebook : notebooks_) {
        if (notebook.id != decision.victim) continue;
        ASSERT_EQ(notebook.does, Does::kGrows) << "only who waits leaves";
        notebook.gave_way = true;
        suspend(notebook);
      }
    }
  }

  /// As the daemon does: what waits on the card counts with its limit, what came back with what it asked for.
  void return_through_queue() {
    Bytes promised;
    for (const Notebook& notebook : notebooks_) {
      const bool waits = with_watch_ && notebook.does == Does::kGrows && notebook.refused;
      if (leased_.count(notebook.id) == 0 && on_card(notebook) > 0_GiB)
        promised += waits ? notebook.limit : notebook.used;
    }
    Capacity card;
    card.set_device(0, kCard, promised);
    queue_.update(std::move(card));
    for (Notebook& notebook : notebooks_) {
      if (notebook.does != Does::kSuspended || !notebook.asks || leased_.count(notebook.id) != 0 ||
          queue_.position(notebook.id) != 0)
        continue;
      LeaseRequest request;
      request.id = notebook.id;
      request.tenant = "class";
      request.bytes = notebook.limit;
      request.gpus = {0};
      request.submitted_ns = now_;
      ASSERT_TRUE(queue_.submit(request));
    }
    for (const Lease& lease : queue_.step(now_).granted) {
      leased_.insert(lease.request.id);
      ASSERT_TRUE(queue_.mark_running(lease.request.id));
    }
    for (Notebook& notebook : notebooks_) {
      if (notebook.does != Does::kSuspended || leased_.count(notebook.id) == 0 || free() < notebook.used) continue;
      notebook.does = Does::kReturns;
      moved_at_[notebook.id] = now_ + moving_time(notebook);
    }
  }

  std::mt19937 random_;
  bool with_watch_;
  std::uint64_t now_ = 0, progress_ns_ = 0, longest_ = 0, rest_ns_ = 0;
  std::size_t broken_ = 0;
  std::vector<Notebook> notebooks_;
  std::map<std::string, std::uint64_t> moved_at_;
  std::set<std::string> leased_;
  LeaseQueue queue_;
  IdleWatch idle_;
  StandstillWatch watch_;
};

TEST(StandstillRandom, AnHourOfNotebooksGoesOnAndNobodyWaitsForEver) {
  std::uint64_t longest = 0;
  std::size_t broken = 0, without = 0;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    Hour hour(seed, true);
    ASSERT_TRUE(hour.run()) << "a standstill with seed " << seed;
    longest = std::max(longest, hour.longest());
    broken += hour.broken();
    without += Hour(seed, false).run() ? 0 : 1;
  }
  std::printf("30 hours: %zu standstills broken, the longest wait was %.1f s; without: %zu of 30 hours stood still\n",
              broken, static_cast<double>(longest) / 1e9, without);
  EXPECT_GT(without, 0U) << "these notebooks would not have come to a standstill anyway";
  EXPECT_LE(longest, 300 * kSecond);
}

}  // namespace
}  // namespace ration::node
