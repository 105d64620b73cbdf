// A node on which anything happens for days (random_walk.hpp), compared after each tick with what the walk knows by
// itself: who runs and holds what, what people asked for, who queued when. A daemon that was started again has to do
// what the one before it would have done. The digest of a walk is printed: a change that is to keep the node's
// behaviour keeps it.
#include "random_walk.hpp"

namespace ration::node {
namespace {

class CheckedWalk final : public Walk {
 public:
  using Walk::Walk;

 private:
  std::string picture() override {
    const Snapshot& now = engine_->snapshot();
    std::string text;
    for (const DeviceView& device : now.devices)
      text += fmt::format("  device {} {} {} {} {} {} {}\n", device.governed.count(), device.ungoverned.count(),
                          device.unexplained.value_or(Bytes{0}).count(), device.orphaned.value_or(Bytes{0}).count(),
                          device.promised.count(), device.available.count(), device.keep_free.count());
    for (const AccountView& each : now.accounts) {
      text += fmt::format("  {}/{} {} of {} ({}) {} {} {} {} {} {}", each.tenant, each.workload, each.used.count(),
                          each.limit.count(), each.configured_limit.count(), each.guarantee.count(),
                          each.unrequested.count(), each.suspended_bytes.count(), each.suspended, each.resuming,
                          each.waiting);
      const OwnedLimit& owned = subjects().limits.limits.find(each.path)->accounts[0];
      // Of one that is away nobody works out why it may not hold more.
      text += each.suspended ? "\n"
                             : fmt::format(" {}, {} to {} '{}'\n", owned.granted.count(), owned.ceiling.count(),
                                           owned.reach.count(), each.held_back_by);
    }
    for (const TenantStatus& each : subjects().tenants.all())
      text += fmt::format("  {} {} {} {} {} {}\n", each.name, each.limit.text, each.limit_from, each.guarantee.text,
                          each.guarantee_from, each.changes);
    for (const ScheduleRow& each : schedule_rows(engine_->moment(), subjects().schedules))
      text += fmt::format("  {} {}\n", each.name, each.in_force);
    for (const LeaseView& each : leases_->waiting_views())
      text += fmt::format("  {} {} of {}: {}\n", each.id, each.position, each.of, each.reason);
    for (const auto& [id, lease] : granted_)
      if (const auto view = leases_->view(id)) text += fmt::format("  {} {}\n", id, static_cast<int>(view->state));
    return text;
  }

  // ------------------------------------------------------------------ what holds after each tick

  void check(const Events& events) override {
    check_events(events);
    check_queue(events);
    if (!engine_->snapshot().machine_problem.empty()) return;
    check_totals();
    check_limits();
    check_promises();
  }

  Guest* guest_of(const Event& event) {
    const auto found = guests_.find(event.workload);
    return found == guests_.end() ? nullptr : &found->second;
  }

  // What events say is what the walk did, and what the snapshot shows.
  void check_events(const Events& events) {
    for (const Event& event : events) {
      Guest* guest = guest_of(event);
      const std::string what = std::string(event.text.id()), text = event.text;
      if (what == "workload.started") {
        ASSERT_NE(guest, nullptr) << text;
        EXPECT_FALSE(std::exchange(guest->started, true)) << "twice: " << text;
      } else if (event.type == EventType::kEnded) {
        EXPECT_EQ(ending_.erase(event.workload), 1U) << text;
      } else if (what == "limit.tampered") {
        ASSERT_TRUE(guest != nullptr && guest->tampered) << "nobody did that: " << text;
        EXPECT_EQ(event.old_value, std::to_string(guest->tampered->count())) << text;
        guest->tampered.reset();
      } else if (what == "guarantee.tampered" || event.type == EventType::kGuardLost) {
        ADD_FAILURE() << "nobody did that: " << text;
      } else if (event.type == EventType::kDenied && guest != nullptr) {
        ++guest->denials_told;
      } else if (what == "guarantee.lost" || what == "guarantee.impossible") {
        if (guest != nullptr) guest->guarantee = Bytes{0};
      } else if (event.type == EventType::kSuspended && guest != nullptr) {
        // Told once more of one that was coming back when the daemon ended, and did not.
        EXPECT_TRUE(!std::exchange(guest->away, true) || (restarts > 0 && guest->moved_out)) << "twice: " << text;
      } else if (event.type == EventType::kResumed && guest != nullptr) {
        // Also told of one that was leaving when the daemon ended, and stayed.
        EXPECT_TRUE(std::exchange(guest->away, false) || restarts > 0) << "twice: " << text;
        guest->new_here = true;
      } else if (event.type == EventType::kDaemon) {
        EXPECT_TRUE(is_lost_) << text;
      }
    }
    std::set<std::string> shown;
    for (const AccountView& each : engine_->snapshot().accounts) {
      shown.insert(each.workload);
      const auto found = guests_.find(each.workload);
      ASSERT_NE(found, guests_.end()) << each.workload << " has ended";
      const Guest& guest = found->second;
      EXPECT_TRUE(guest.started) << each.workload;
      EXPECT_FALSE(guest.tampered) << each.workload << " keeps " << guest.tampered.value_or(Bytes{0}).count();
      EXPECT_EQ(each.suspended, guest.away) << each.workload;
      EXPECT_EQ(each.denials, guest.denied) << each.workload;
      EXPECT_EQ(guest.denials_told, guest.denied) << each.workload;
      EXPECT_EQ(each.configured_limit, guest.limit) << each.workload;
      EXPECT_EQ(each.guarantee, guest.guarantee) << each.workload;
      EXPECT_EQ(each.tenant, guest.tenant);
      EXPECT_EQ(each.waiting, guest.waits_for > Bytes{0}) << each.workload;
    }
    EXPECT_EQ(shown.size(), guests_.size());
    EXPECT_TRUE(ending_.empty()) << *ending_.begin() << " has ended, and nobody is told";
  }

  void check_totals() {
    const Snapshot& now = engine_->snapshot();
    const DeviceView& device = now.devices.front();
    Bytes governed, ungoverned, known;
    for (const AccountView& each : now.accounts) {
      governed += each.trusted_usage();
      const Guest& guest = guests_.at(each.workload);
      const Bytes shown = each.suspended ? each.suspended_bytes : each.used;
      EXPECT_TRUE(shown >= guest.held && shown <= guest.held + std::max(guest.beside, each.unrequested))
          << each.workload << " holds " << guest.held.count() << ", is shown with " << shown.count();
    }
    for (const UngovernedView& each : now.ungoverned) ungoverned += *each.process.driver_used;
    for (const auto& [process, bytes] : strangers_) known += bytes;
    EXPECT_EQ(device.governed, governed);
    EXPECT_EQ(device.ungoverned, ungoverned);
    EXPECT_EQ(ungoverned, known);
    EXPECT_EQ(device.governed + device.ungoverned + *device.unexplained + *device.orphaned,
              std::max(*device.used(), device.governed + device.ungoverned));
    std::map<std::string, Bytes> of_tenants;
    for (const AccountView& each : now.accounts)
      if (!each.suspended) of_tenants[each.tenant] += each.guarantee;
    Bytes promised = device.sliced;
    for (const TenantStatus& each : subjects().tenants.all()) {
      const Bytes own = each.guarantee.is_set() ? *each.guarantee.on(device_.total, device_.total) : Bytes{0};
      promised += std::max(own, of_tenants[each.name]);
    }
    EXPECT_EQ(device.promised, promised);
    EXPECT_LE(promised + device.keep_free, device.device.total) << "more is promised than there is";
  }

  void check_limits() {
    std::map<std::string, Bytes> limits, least;
    std::set<std::string> beside;  ///< tenants with a workload of which the driver says more than its book
    for (const AccountView& each : engine_->snapshot().accounts) {
      Guest& guest = guests_.at(each.workload);
      EXPECT_EQ(each.limit, guest.program->book.account(0).limits().given) << each.workload;
      EXPECT_LE(each.limit, std::max(each.configured_limit, kGranule)) << each.workload;
      if (each.suspended) continue;
      const bool counts = !std::exchange(guest.new_here, false);
      EXPECT_TRUE(!counts || each.limit >= round_down(each.guarantee, kGranule))
          << each.workload << " has less than its guarantee";
      if (guest.beside > Bytes{0} || each.unrequested > Bytes{0}) beside.insert(each.tenant);
      limits[each.tenant] += std::max(each.limit, each.used);
      least[each.tenant] += std::max(each.guarantee, each.used) + kGranule;
    }
    for (const TenantStatus& each : subjects().tenants.all()) {
      if (!each.limit.is_set() || beside.count(each.name) != 0) continue;
      EXPECT_LE(limits[each.name], std::max(*each.limit.on(device_.total, device_.total), least[each.name]))
          << each.name << " gets more than its limit";
    }
  }

  // A guaranteed byte is free, once all guarantees can be kept beside what is held.
  void check_promises() {
    kept_.clear();
    const DeviceView& device = engine_->snapshot().devices.front();
    Bytes needed = device.keep_free, allowed = device.keep_free, outside = orphaned_;
    for (const auto& [process, bytes] : strangers_) outside += bytes;
    std::map<std::string, Bytes> of_tenants;
    bool anything = device.keep_free > Bytes{0}, beside = false;
    for (const AccountView& each : engine_->snapshot().accounts) {
      const Guest& guest = guests_.at(each.workload);
      beside = beside || guest.beside > Bytes{0} || guest.moved_out != each.suspended;
      if (each.suspended) continue;
      anything = anything || each.guarantee > Bytes{0};
      needed += std::max(each.guarantee, each.used) + kGranule;
      allowed += std::max(each.limit, each.used);
      of_tenants[each.tenant] += std::max(each.guarantee, each.used);
    }
    for (const TenantStatus& each : subjects().tenants.all())
      if (each.guarantee.is_set())
        needed +=
            std::max(*each.guarantee.on(device_.total, device_.total), of_tenants[each.name]) - of_tenants[each.name];
    const bool same = !beside && outside == outside_ && needed == needed_;
    outside_ = outside;
    needed_ = needed;
    unchanged_ = same ? unchanged_ + 1 : 0;
    if (unchanged_ < 4 || needed + outside > device_.total || !anything) return;
    EXPECT_LE(allowed + outside, device_.total) << "somebody may take what is guaranteed to another";
    for (const AccountView& each : engine_->snapshot().accounts)
      if (!each.suspended) kept_[each.workload] = round_down(each.guarantee, kGranule);
  }

  void check_queue(const Events& events) {
    std::map<std::string, LeaseView> views;
    std::vector<std::string> order;
    for (const LeaseView& view : leases_->waiting_views()) {
      views.emplace(view.id, view);
      order.push_back(view.id);
    }
    std::map<std::string, std::string> grants;  // what is told of each
    for (const Event& event : events) {
      if (event.type != EventType::kGranted) continue;
      grants[event.lease] = event.text;
      EXPECT_EQ(line_up_.count(event.lease), 1U) << event.lease << " is granted, and waits no more";
    }
    std::vector<std::pair<std::int64_t, std::string>> expired;
    for (const auto& [id, entry] : line_up_)
      if (entry.deadline_ns && *entry.deadline_ns <= now_ns_) expired.emplace_back(entry.rank(), id);
    std::sort(expired.begin(), expired.end());
    for (const auto& [rank, id] : expired) quit(id);
    std::map<std::string, std::int64_t> started;  // rank of each
    std::vector<std::string> ids;
    for (const auto& [id, entry] : line_up_) ids.push_back(id);
    for (const std::string& id : ids) {
      InLine& entry = line_up_.at(id);
      const bool runs_already = entry.waiter == nullptr;
      if (grants.count(id) != 0 || (runs_already && views.count(id) == 0 && is_starter(entry.wish.waiter.pid))) {
        started[id] = entry.rank();
        granted_[id] = std::move(entry);
        line_up_.erase(id);
      } else if (runs_already && views.count(id) == 0) {
        quit(id);  // its workload has ended
      } else {
        EXPECT_EQ(views.count(id), 1U) << id << " was forgotten";
      }
    }
    for (const std::string& id : order) {
      const LeaseView& view = views.at(id);
      const auto known = line_up_.find(id);
      if (known != line_up_.end() && known->second.submitted_ns == view.submitted_ns) continue;
      if (known != line_up_.end()) quit(id);
      EXPECT_TRUE(is_starter(view.submission.waiter.pid)) << id << " came from nowhere";
      granted_.erase(id);
      InLine entry;  // one that wants to come back
      entry.tenant = view.submission.tenant;
      entry.priority = view.submission.priority;
      entry.submitted_ns = view.submitted_ns;
      entry.wish = view.submission;
      join(id, std::move(entry));
    }
    if (plan_.idle_are_suspended) return;  // of whom it is not sure that it asks has a rank of its own
    for (std::size_t i = 1; i < order.size(); ++i)
      EXPECT_LE(line_up_.at(order[i - 1]).rank(), line_up_.at(order[i]).rank()) << order[i] << " comes too late";
    for (const auto& [id, rank] : started)
      for (const auto& [other, entry] : line_up_) {
        const std::string& why = views.at(other).reason;
        const Bytes need = round_up(std::max(entry.wish.bytes, entry.wish.guarantee), kGranule);
        if (rank > entry.rank() && grants[id].find("ahead of") == std::string::npos && granted_[id].waiter != nullptr &&
            why.find("its tenant has") == std::string::npos &&
            leases_->queue().capacity().could_hold(0, need, entry.tenant, true))
          ADD_FAILURE() << id << " was granted before " << other << ": " << why;
      }
  }
  [[nodiscard]] bool is_starter(pid_t pid) const {
    return std::any_of(guests_.begin(), guests_.end(),
                       [&](const auto& each) { return each.second.starter->pid() == pid; });
  }

  void rest() override {
    quiet_ = 0;
    int ticks = 0;
    std::string before;
    for (; ticks < 200 && (quiet_ < 8 || picture_ != before); ++ticks) {
      before = picture_;
      pass(1);
    }
    EXPECT_LT(ticks, 200) << "it does not come to rest";
    ++rests;
    before = picture_;
    if (plan_.restarts == Restarts::kAtRest) restart(rests % 2 == 0);
    for (int tick = 0; tick < 3; ++tick) pass(1);
    EXPECT_EQ(picture_, before);
    pass(120);
  }

  Bytes outside_, needed_;
  int unchanged_ = 0;
};

std::unique_ptr<CheckedWalk> walked(const Plan& plan) {
  auto walk = std::make_unique<CheckedWalk>(plan);
  walk->run();
  std::string told;
  for (const auto& [type, count] : walk->told) told += fmt::format(" {} {}", count, type);
  std::printf("seed %u: %.1f days, %zu ticks, %d rests, %d restarts, digest %016llx:%s\n", plan.seed, walk->days(),
              walk->record.size(), walk->rests, walk->restarts, static_cast<unsigned long long>(walk->digest()),
              told.c_str());
  const std::size_t ticks = walk->record.size();
  for (std::size_t tick = ticks - std::min<std::size_t>(ticks, 3); testing::Test::HasFailure() && tick < ticks; ++tick)
    std::printf("%s\n", walk->record[tick].c_str());  // what led to it
  return walk;
}

TEST(RandomNode, KeepsWhatItPromisesForDays) {
  for (const unsigned seed : {1U, 2U}) {
    walked({.seed = seed, .steps = 700});
    if (HasFailure()) return;
  }
}

TEST(RandomNode, SuspendsTheIdleAndKeepsWhatItPromises) {
  walked({.seed = 4, .idle_are_suspended = true, .steps = 400});
}

TEST(RandomNode, KeepsItWhereverTheDaemonStartsAnew) {
  for (const unsigned seed : {5U, 6U}) {
    walked({.seed = seed, .restarts = Restarts::kAnywhere, .steps = 400});
    if (HasFailure()) return;
  }
}

TEST(RandomNode, ADaemonThatStartsAnewGoesOnAsTheOneBeforeIt) {
  for (const unsigned seed : {7U, 8U}) {
    const auto one = walked({.seed = seed, .steps = 300});
    const auto anew = walked({.seed = seed, .restarts = Restarts::kAtRest, .steps = 300});
    if (HasFailure()) return;
    for (std::size_t tick = 0; tick < one->record.size(); ++tick)
      ASSERT_EQ(one->record[tick], anew->record.at(tick)) << "seed " << seed << ", tick " << tick;
  }
}

TEST(RandomNode, TheSameSeedIsTheSameNode) {
  const Plan plan{.seed = 9, .restarts = Restarts::kAnywhere, .steps = 150};
  const auto once = walked(plan), again = walked(plan);
  EXPECT_EQ(once->digest(), again->digest());
}

}  // namespace
}  // namespace ration::node
