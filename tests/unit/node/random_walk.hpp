// What may happen on a node, drawn at random, in invented time: workloads come, grow, shrink, wait, end and are killed;
// people change limits, tenants and schedules, queue, suspend and resume; a program alters its book; processes without
// a limit come and go; the driver does not answer; the daemon ends or is killed, and starts again. The walk knows what
// it did, and so what the node should show.
#pragma once

#include <fmt/format.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

#include "invented_node.hpp"
#include "node/limits/limits_requests.hpp"
#include "node/queue/queue_step.hpp"
#include "node/residency/residency_requests.hpp"
#include "node/tenants/schedules_requests.hpp"

namespace ration::node {

inline constexpr const char* kConfiguration = R"(
[[tenant]]
name = "nlp"
limit = "10GiB"
guarantee = "2GiB"
priority = 5
soft = "80%"
[[tenant]]
name = "vision"
limit = "12GiB"
[[tenant]]
name = "ops"
priority = -3
[[schedule]]
when = "22:00-07:00"
set = { nlp = "14GiB" }
[[device]]
match = "*"
keep_free = "256MiB"
)";
inline constexpr const char* kIdleAreSuspended = R"(
[[policy]]
match = { users = ["*"] }
idle = { after = "10m", action = "suspend" }
)";
inline constexpr const char* kTenants[] = {"nlp", "vision", "ops"};

/// When the daemon ends and starts again.
enum class Restarts {
  kNever,
  kAtRest,    ///< when nothing has changed for some ticks
  kAnywhere,  ///< between any two ticks
};

struct Plan {
  unsigned seed = 1;
  Restarts restarts = Restarts::kNever;
  bool idle_are_suspended = false;
  int steps = 1500;
};

/// A process that rests until it is ended: somebody's `ration run`, or one without a limit.
class Resting {
 public:
  Resting() {
    int held[2];
    EXPECT_EQ(::pipe2(held, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close_range(3, ~0U, 0);  // a lock of the daemon's, inherited, would outlive the daemon
      for (;;) ::pause();
    }
    ::close(held[1]);
    char nothing = 0;
    EXPECT_EQ(::read(held[0], &nothing, 1), 0) << "its end was closed with all else";
    ::close(held[0]);
  }
  ~Resting() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Resting(const Resting&) = delete;
  Resting& operator=(const Resting&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};
using Process = std::unique_ptr<Resting>;

/// A walk over one node. Whoever derives from it judges each tick.
class Walk : public InventedNode {
 public:
  explicit Walk(const Plan& plan) : plan_(plan), random_(plan.seed) {
    std::filesystem::create_directory(folder_ + "/state");
    begin_daemon();
  }
  void TestBody() override {}

  void run() {
    for (int step = 0; step < plan_.steps; ++step) {
      SCOPED_TRACE(fmt::format("seed {}, step {}", plan_.seed, step));
      const std::uint64_t what = draw(100), one = random_(), other = random_(), pace = draw(20), fate = draw(40);
      act(what, one, other);
      go_on_waiting();
      take_up_leases();
      if (plan_.restarts == Restarts::kAnywhere && fate < 2) restart(fate == 0);
      pass(pace < 17 ? 1 + pace / 6 : pace < 19 ? 60 : 1200);
      if (step % 50 == 49) rest();
      if (testing::Test::HasFailure()) return;
    }
  }

  /// One line a tick: what happened, and what there was after it.
  std::vector<std::string> record;
  std::map<std::string, int> told;  ///< events, by type
  int restarts = 0, rests = 0;
  [[nodiscard]] std::uint64_t digest() const {
    std::uint64_t hash = 14695981039346656037U;
    for (const std::string& line : record)
      for (const char letter : line) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211U;
    return hash;
  }
  [[nodiscard]] double days() const { return static_cast<double>(now_ns_ - kBegin) / 86400e9; }

 protected:
  static constexpr std::uint64_t kBegin = 1'700'000'000 * kSecond;

  struct Guest {
    std::string tenant;
    Process starter;
    Program* program = nullptr;
    book::OnDeny on_deny = book::OnDeny::kFail;
    Bytes limit, guarantee;  ///< as people set them
    Bytes held, beside;      ///< by its process: by its book, and beyond it
    Bytes waits_for;
    bool started = false, away = false;  ///< as events told
    bool moved_out = false;              ///< its memory is not on the device
    bool new_here = true;                ///< its guarantee may count from the next tick on
    std::uint64_t denied = 0, denials_told = 0;
    std::optional<Bytes> tampered;
  };
  using Guests = std::map<std::string, Guest>;

  struct InLine {
    std::string tenant;
    int priority = 0;
    std::uint64_t submitted_ns = 0;
    std::int64_t due = 0;
    std::optional<std::uint64_t> deadline_ns;
    LeaseSubmission wish;
    Process waiter;
    [[nodiscard]] std::int64_t rank() const { return due - priority * static_cast<std::int64_t>(60 * kSecond); }
  };

  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  static Bytes mib(std::uint64_t count) { return Bytes{count << 20}; }
  Subjects& subjects() { return engine_->subjects(); }
  // ------------------------------------------------------------------ the daemon

  void begin_daemon() {
    prepare_options();
    options_.state_folder = folder_ + "/state";
    options_.cgroup_of = [](std::int32_t) { return std::string(); };
    options_.earlier.recorded_to = told.empty() ? 0 : history::to_ms(now_ns_);
    options_.earlier.has = [this](const Event& event) { return recorded_.count(key_of(event, event.time)) != 0; };
    start(std::string(kConfiguration) + (plan_.idle_are_suspended ? kIdleAreSuspended : ""));
    leases_ = std::make_unique<Leases>(folder_ + "/state/leases.json");
  }

  void restart(bool killed) {
    ++restarts;
    if (!killed)
      for (Event& event : engine_->finish()) asked_.push_back(std::move(event));
    let_jobs_end();  // they are processes of their own
    anew_ = 3;
    leases_.reset();
    engine_.reset();
    begin_daemon();
  }

  using Key = std::tuple<history::TimeMs, std::string, std::string, std::string, std::string>;
  static Key key_of(const Event& event, history::TimeMs time) {
    const history::Event record = to_record(event);
    return {time, record.type, record.workload, record.tenant, record.denial};
  }

  // ------------------------------------------------------------------ what happens

  void act(std::uint64_t what, std::uint64_t one, std::uint64_t other) {
    line_ = fmt::format("{} ", what);
    struct {
      std::uint64_t below;
      void (Walk::*happens)(std::uint64_t, std::uint64_t);
    } constexpr kActs[] = {{10, &Walk::start_workload}, {34, &Walk::grow},          {46, &Walk::shrink},
                           {50, &Walk::end_workload},   {52, &Walk::kill_workload}, {62, &Walk::set_workload},
                           {66, &Walk::set_tenant},     {68, &Walk::set_schedule_}, {72, &Walk::suspend_or_resume},
                           {80, &Walk::queue},          {82, &Walk::leave_queue},   {87, &Walk::come_without_limit},
                           {91, &Walk::tamper},         {92, &Walk::lose_devices},  {95, &Walk::hold_beside_book},
                           {97, &Walk::leave_orphaned}, {98, &Walk::ask_to_trim},   {100, nullptr}};
    for (const auto& act : kActs)
      if (what < act.below) return act.happens == nullptr ? void() : (this->*act.happens)(one, other);
  }

  /// Null: nobody runs.
  Guests::iterator any_guest(std::uint64_t number) {
    if (guests_.empty()) return guests_.end();
    return std::next(guests_.begin(), static_cast<std::ptrdiff_t>(number % guests_.size()));
  }
  /// One whose calls of the driver return.
  Guests::iterator any_that_works(std::uint64_t number) {
    const auto guest = any_guest(number);
    if (guest == guests_.end() || guest->second.waits_for > Bytes{0} || guest->second.program->pid == 0 ||
        subjects().residency.suspension().state_of(guest->second.program->path) != Suspension::State::kOnDevice)
      return guests_.end();
    return guest;
  }

  void start_workload(std::uint64_t one, std::uint64_t other) {
    if (guests_.size() >= 9) return;
    const Bytes limit = mib(512 + one % 5000);
    begin_workload(fmt::format("w{}", ++count_), kTenants[one % 3], limit,
                   other % 3 == 0 ? mib((limit.count() >> 20) * (other % 7) / 12) : Bytes{0},
                   other % 5 < 2 ? book::OnDeny::kWait : book::OnDeny::kFail, std::make_unique<Resting>());
  }
  Program& begin_workload(const std::string& name, const std::string& tenant, Bytes limit, Bytes guarantee,
                          book::OnDeny on_deny, Process starter) {
    book::NewBook contents;
    contents.name = name;
    contents.tenant = tenant;
    contents.on_deny = on_deny;
    contents.creator = identity_of(starter->pid());
    Guest& guest = guests_[name];
    guest.tenant = tenant;
    guest.on_deny = on_deny;
    guest.limit = limit;
    guest.guarantee = guarantee;
    guest.starter = std::move(starter);
    guest.program = &InventedNode::run(std::move(contents), limit, guarantee);
    return *guest.program;
  }

  /// What the driver could give.
  [[nodiscard]] Bytes room() const {
    Bytes used = orphaned_;
    for (const auto& [name, guest] : guests_)
      if (!guest.moved_out) used += guest.held + guest.beside;
    for (const auto& [process, bytes] : strangers_) used += bytes;
    return device_.total - std::min(device_.total, used);
  }

  void grow(std::uint64_t one, std::uint64_t other) {
    const auto guest = any_that_works(one);
    if (guest == guests_.end()) return;
    auto& [name, it] = *guest;
    const Bytes bytes = mib(2 + other % 1500);
    if (bytes > room()) {
      EXPECT_TRUE(it.held + bytes > kept_[name]) << name << " does not get " << bytes.count() << " of its guarantee";
      return;
    }
    if (it.program->take(bytes)) {
      it.held += bytes;
      return;
    }
    EXPECT_GT(it.held + bytes, kept_[name]) << name << " is denied what is guaranteed to it";
    if (it.on_deny == book::OnDeny::kWait) {
      it.program->begin_waiting(bytes);
      it.waits_for = bytes;
    } else {
      it.program->deny(bytes);
      ++it.denied;
    }
  }
  void go_on_waiting() {
    for (auto& [name, guest] : guests_) {
      const std::uint64_t patience = draw(40);
      if (guest.waits_for == Bytes{0} ||
          subjects().residency.suspension().state_of(guest.program->path) != Suspension::State::kOnDevice)
        continue;
      const Bytes bytes = guest.waits_for;
      if (bytes <= room() && guest.program->take(bytes)) {
        guest.program->end_waiting(true);
        guest.held += bytes;
      } else if (patience == 0) {
        guest.program->end_waiting(false);
      } else {
        continue;
      }
      guest.waits_for = Bytes{0};
    }
  }
  void shrink(std::uint64_t one, std::uint64_t other) {
    const auto guest = any_that_works(one);
    if (guest == guests_.end()) return;
    const Bytes bytes = std::min(guest->second.held, mib(2 + other % 2500));
    guest->second.program->give_back(bytes);
    guest->second.held -= bytes;
  }
  void end_workload(std::uint64_t one, std::uint64_t other) {
    const auto guest = any_guest(one);
    if (guest == guests_.end()) return;
    guest->second.program->end(static_cast<int>(other % 3));
    over(guest);
  }
  void kill_workload(std::uint64_t one, std::uint64_t) {
    if (const auto guest = any_guest(one); guest != guests_.end()) over(guest);
  }
  void over(Guests::iterator guest) {
    const Program* program = guest->second.program;
    if (guest->second.started) ending_.insert(guest->first);
    files_over_.push_back(program->path);
    guest->second.starter.reset();
    programs_.remove_if([&](const Program& each) { return &each == program; });
    guests_.erase(guest);
  }

  void set_workload(std::uint64_t one, std::uint64_t other) {
    const auto guest = any_guest(one);
    if (guest == guests_.end()) return;
    auto& [name, it] = *guest;
    LimitRequest request;
    request.workload = name;
    if (other % 4 != 0) request.limit = fmt::format("{}MiB", 256 + other % 6000);
    if (other % 4 != 1) request.guarantee = fmt::format("{}MiB", other / 8 % 3 == 0 ? 0 : other / 64 % 3000);
    const auto done = change_workload(subjects().limit_subjects(engine_->moment()), request, kRoot, asked_);
    line_ += fmt::format("set {} {} {} {} ", name, request.limit, request.guarantee, done ? "" : done.error().id);
    if (!done) return;
    it.limit = done->front().limit;
    it.guarantee = done->front().guarantee;
    it.tampered.reset();  // what people say stands in the book at once
  }
  void set_tenant(std::uint64_t one, std::uint64_t other) {
    LimitRequest request;
    request.workload = kTenants[one % 3];
    if (other % 2 == 0) request.limit = fmt::format("{}GiB", 3 + other / 2 % 13);
    if (other % 3 == 0) request.guarantee = fmt::format("{}GiB", other / 6 % 4);
    const auto done = change_tenant(engine_->moment(), subjects().tenants, subjects().promises, request, kRoot, asked_);
    line_ += fmt::format("set {} {} {} {} ", request.workload, request.limit, request.guarantee,
                         done ? "" : done.error().id);
  }
  void set_schedule_(std::uint64_t one, std::uint64_t other) {
    const std::uint64_t from = other % 24;
    const bool done =
        one % 3 == 0
            ? remove_schedule(engine_->moment(), subjects().schedules, "extra", kRoot, false, asked_).has_value()
            : set_schedule(engine_->moment(), subjects().schedules,
                           {"extra",
                            fmt::format("{:02}:00-{:02}:30", from, (from + 1 + one % 5) % 24),
                            "",
                            {{"vision", fmt::format("{}GiB", 4 + other % 9)}},
                            ""},
                           kRoot, false, asked_)
                  .has_value();
    line_ += fmt::format("schedule {} ", done);
  }

  void suspend_or_resume(std::uint64_t one, std::uint64_t other) {
    const auto guest = any_guest(one);
    if (guest == guests_.end()) return;
    jobs_->problem.reset();
    if (other % 6 == 0) jobs_->problem = Error{"E1543", "the driver said no", "ration doctor", 1};
    const auto done = guest->second.away
                          ? resume(engine_->moment(), subjects().residency, guest->first, kRoot)
                          : suspend(engine_->moment(), subjects().residency, guest->first, kRoot, asked_);
    line_ += fmt::format("move {} {} ", guest->first, done ? "" : done.error().id);
  }
  /// What a checkpoint does to memory, it does whether a daemon runs or not.
  void let_jobs_end() {
    if (jobs_->problem) return;
    for (const auto& job : jobs_->started)
      for (auto& [name, guest] : guests_) {
        if (guest.program->path != job.id) continue;
        const bool leaves = job.action == machine::CheckpointAction::kSuspend;
        if (leaves == guest.moved_out) continue;
        EXPECT_TRUE(leaves || guest.held + guest.beside <= room()) << name << " returns without room";
        guest.moved_out = leaves;
      }
  }

  void queue(std::uint64_t one, std::uint64_t other) {
    if (line_up_.size() >= 8) return;
    InLine entry;
    entry.waiter = std::make_unique<Resting>();
    entry.tenant = kTenants[one % 3];
    entry.priority = other % 4 == 0 ? static_cast<int>(other / 4 % 4) : 0;
    entry.submitted_ns = now_ns_;
    LeaseSubmission& wish = entry.wish;
    wish.tenant = entry.tenant;
    wish.user = "root";
    wish.command = "train";
    wish.gpu = one / 3 % 2 == 0 ? "auto" : "0";
    wish.owner = ::getuid();
    wish.waiter = *identity_of(entry.waiter->pid());
    wish.bytes = mib(1024 + one / 6 % 5000);
    wish.guarantee = other / 16 % 3 == 0 ? mib(one / 6 % 1000) : Bytes{0};
    wish.priority = entry.priority;
    if (other / 64 % 4 == 0) {
      wish.wait_ns = 30 * kSecond;
      entry.deadline_ns = now_ns_ + *wish.wait_ns;
    }
    const auto id = leases_->submit(wish, now_ns_);
    line_ += fmt::format("queue {} ", id ? *id : id.error().id);
    if (!id) return;
    EXPECT_TRUE(line_up_.count(*id) == 0 && granted_.count(*id) == 0) << *id << " is given twice";
    join(*id, std::move(entry));
  }
  void leave_queue(std::uint64_t one, std::uint64_t other) {
    if (line_up_.empty()) return;
    const auto entry = std::next(line_up_.begin(), static_cast<std::ptrdiff_t>(one % line_up_.size()));
    if (entry->second.waiter == nullptr) return;  // of one that comes back
    const std::string id = entry->first;
    if (other % 2 == 0) {
      EXPECT_TRUE(leases_->cancel(id, std::nullopt, "root")) << id;
    }
    quit(id);  // its process ends; the queue sees that
  }
  void take_up_leases() {
    for (auto entry = granted_.begin(); entry != granted_.end();) {
      auto& [id, lease] = *entry;
      const auto view = leases_->view(id);
      if (lease.waiter == nullptr || draw(3) == 0 || guests_.size() >= 12) {
        entry = lease.waiter == nullptr && !view ? granted_.erase(entry) : std::next(entry);
        continue;
      }
      if (!view || view->state != LeaseState::kGranted) {
        EXPECT_TRUE(view && view->state == LeaseState::kOver) << id;
        entry = granted_.erase(entry);
        continue;
      }
      Program& program = begin_workload(fmt::format("w{}", ++count_), lease.tenant, lease.wish.bytes,
                                        std::min(lease.wish.bytes, lease.wish.guarantee), book::OnDeny::kFail,
                                        std::move(lease.waiter));
      EXPECT_TRUE(leases_->mark_running(id, program.path, ::getuid())) << id;
      line_ += fmt::format("take {} ", id);
      ++entry;
    }
  }

  void come_without_limit(std::uint64_t one, std::uint64_t other) {
    if (strangers_.size() >= 3 || (!strangers_.empty() && one % 2 == 0)) {
      strangers_.erase(strangers_.begin());
    } else if (const Bytes bytes = mib(300 + other % 1500); bytes <= room()) {
      strangers_.emplace_back(std::make_unique<Resting>(), bytes);
    }
  }
  void tamper(std::uint64_t one, std::uint64_t other) {
    const auto guest = any_guest(one);
    if (guest == guests_.end() || !guest->second.started) return;
    const Bytes limit = mib(100 + other % 9000) + Bytes{4096};  // never what a daemon writes
    guest->second.program->book.account(0).set_limit(limit);
    guest->second.tampered = limit;
  }
  void lose_devices(std::uint64_t, std::uint64_t other) { lost_for_ = 1 + other % 4; }
  void hold_beside_book(std::uint64_t one, std::uint64_t other) {
    const auto guest = any_that_works(one);
    if (guest == guests_.end()) return;
    const Bytes bytes = mib(other % 3 == 0 ? 0 : other % 3 == 1 ? 200 : 1500);
    if (bytes > room() || guest->second.held == Bytes{0}) return;
    guest->second.beside = bytes;
  }
  void leave_orphaned(std::uint64_t one, std::uint64_t) {
    const Bytes bytes = mib(one % 2 == 0 ? 0 : 600);
    if (bytes <= room()) orphaned_ = bytes;
  }
  void ask_to_trim(std::uint64_t one, std::uint64_t) {
    if (const auto guest = any_guest(one); guest != guests_.end())
      (void)trim(engine_->moment(), subjects().residency, guest->first, kRoot);
  }

  // ------------------------------------------------------------------ the queue, as queue.hpp has its order

  void join(const std::string& id, InLine entry) {
    entry.due = static_cast<std::int64_t>(entry.submitted_ns);
    for (const auto& [other, each] : line_up_)
      if (each.tenant == entry.tenant && each.priority == entry.priority)
        entry.due = std::max(entry.due, each.due + static_cast<std::int64_t>(60 * kSecond));
    line_up_[id] = std::move(entry);
  }
  /// Those behind it of the same tenant and priority move up by one place.
  void quit(const std::string& id) {
    const InLine gone = std::move(line_up_.at(id));
    line_up_.erase(id);
    std::vector<InLine*> behind;
    for (auto& [other, each] : line_up_)
      if (each.tenant == gone.tenant && each.priority == gone.priority && each.due > gone.due) behind.push_back(&each);
    std::sort(behind.begin(), behind.end(), [](const InLine* a, const InLine* b) { return a->due < b->due; });
    std::int64_t place = gone.due;
    for (InLine* each : behind) {
      const std::int64_t own = each->due;
      each->due = std::max(static_cast<std::int64_t>(each->submitted_ns), place);
      place = own;
    }
  }

  // ------------------------------------------------------------------ a tick

  /// Judges what the tick told, and what there is now.
  virtual void check(const Events& events) = 0;
  /// Returns all that a restart may not change.
  virtual std::string picture() = 0;
  /// Called now and then: nothing happens until the node has come to rest.
  virtual void rest() = 0;

  void show_driver() {
    let_jobs_end();
    is_lost_ = lost_for_ > 0;
    if (lost_for_ > 0) --lost_for_;
    device_.processes.emplace();
    device_.free = room();
    device_.utilisation = 0;
    for (const auto& [name, guest] : guests_)
      if (!guest.moved_out && guest.held + guest.beside > Bytes{0})
        device_.processes->push_back({guest.program->pid, guest.held + guest.beside});
    for (const auto& [process, bytes] : strangers_) device_.processes->push_back({process->pid(), bytes});
  }

  void pass(std::uint64_t seconds) {
    show_driver();
    now_ns_ += (seconds - 1) * kSecond;
    engine_->set_queue_length(leases_->queue().waiting());
    Events events = std::exchange(asked_, {});
    for (Event& event : tick()) events.push_back(std::move(event));
    (void)step_queue(engine_->moment(), std::exchange(residency_changes_, {}),
                     {*leases_, subjects().residency, subjects().promises}, events);
    for (const Event& event : events) {
      ++told[name_of(event.type)];
      for (const history::TimeMs time : {event.time, event.first_time}) recorded_.insert(key_of(event, time));
    }
    check(events);
    for (const Event& event : events)
      if (anew_ == 0 || !is_told_anew(event))
        line_ += fmt::format("\n  {}: {}", name_of(event.type), without_pids(event.text));
    if (anew_ > 0) --anew_;
    picture_ = picture();
    record.push_back(fmt::format("{}{}\n{}", (now_ns_ - kBegin) / kSecond, std::exchange(line_, {}), picture_));
    quiet_ = events.empty() ? quiet_ + 1 : 0;
    for (const std::string& path : std::exchange(files_over_, {})) std::filesystem::remove(path);
  }

  /// Returns true for what a daemon that starts tells of all that it finds.
  static bool is_told_anew(const Event& event) {
    return event.type == EventType::kUngoverned || event.type == EventType::kOrphaned ||
           event.type == EventType::kShrinking || event.type == EventType::kAlert ||
           event.type == EventType::kResuming || event.text.id() == "book.beside";
  }
  static std::string without_pids(std::string text) {
    for (std::size_t at = 0; (at = text.find("pid ", at)) != std::string::npos; at += 4) {
      std::size_t digits = 0;
      while (at + 4 + digits < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 4 + digits]))) ++digits;
      text.erase(at + 4, digits);
    }
    return text;
  }

  static inline const Caller kRoot{"root", 0, true};

  const Plan plan_;
  std::mt19937_64 random_;
  std::unique_ptr<Leases> leases_;
  std::set<Key> recorded_;
  Events asked_;  ///< what requests told since the last tick

  Guests guests_;
  std::uint64_t count_ = 0;
  std::set<std::string> ending_;         ///< ended, and not told yet
  std::vector<std::string> files_over_;  ///< of those that have ended
  std::vector<std::pair<Process, Bytes>> strangers_;
  Bytes orphaned_;
  std::uint64_t lost_for_ = 0;
  std::map<std::string, InLine> line_up_, granted_;
  std::map<std::string, Bytes> kept_;  ///< guarantees that are there to be taken
  int quiet_ = 0;                      ///< ticks without an event
  int anew_ = 0;                       ///< ticks in which a daemon that was started tells what it finds
  std::string line_, picture_;
};

}  // namespace ration::node
