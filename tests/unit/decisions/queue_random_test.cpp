// Ten thousand random arrivals in simulated time, watched by a checker that knows the rules of queue.hpp and nothing of
// queue.cpp: it keeps its own list of who waits and who runs, and answers "when could this one start?" by trying.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <random>

#include "node/queue/queue.hpp"

namespace ration::node {
namespace {

using namespace ration::literals;

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

struct Job {
  LeaseRequest request;
  std::uint64_t runs_ns = 0;
  bool starts = true;
  bool cancelled = false;
  // Kept by the checker.
  std::int64_t due = 0, rank = 0;
  std::uint64_t started = 0, may_end = 0;
  std::vector<int> gpus;
};

Bytes need(const Job& job) { return round_up(std::max(job.request.bytes, job.request.guarantee), kGranule); }

class Checker {
 public:
  Checker(std::vector<Bytes> capacity, std::vector<Job>& jobs) : capacity_(std::move(capacity)), jobs_(jobs) {}

  void submitted(std::size_t job) {
    Job& entry = jobs_[job];
    entry.due = static_cast<std::int64_t>(entry.request.submitted_ns);
    for (const std::size_t other : waiting_) {
      if (jobs_[other].request.tenant == entry.request.tenant &&
          jobs_[other].request.priority == entry.request.priority)
        entry.due = std::max(entry.due, jobs_[other].due + 60'000'000'000);
    }
    entry.rank = entry.due - entry.request.priority * 60'000'000'000;
    waiting_.push_back(job);
  }

  /// Who stood behind it with the same tenant and priority moves up by one place.
  void left(std::size_t job) {
    std::erase(waiting_, job);
    const Job& gone = jobs_[job];
    std::vector<std::size_t> line;
    for (const std::size_t other : waiting_) {
      const Job& entry = jobs_[other];
      if (entry.request.tenant == gone.request.tenant && entry.request.priority == gone.request.priority &&
          entry.due > gone.due)
        line.push_back(other);
    }
    std::sort(line.begin(), line.end(), [&](std::size_t a, std::size_t b) { return jobs_[a].due < jobs_[b].due; });
    std::int64_t place = gone.due;
    for (const std::size_t other : line) {
      Job& entry = jobs_[other];
      const std::int64_t own = entry.due;
      entry.due = std::max(static_cast<std::int64_t>(entry.request.submitted_ns), place);
      entry.rank = entry.due - entry.request.priority * 60'000'000'000;
      place = own;
    }
  }

  void ended(std::size_t job) { std::erase(running_, job); }

  void started(std::size_t job, const std::vector<int>& gpus, std::uint64_t now) {
    now_ = now;
    Job& entry = jobs_[job];
    const std::size_t head = first_before(entry);
    if (head != kNone) {
      ASSERT_FALSE(fits(jobs_[head])) << jobs_[head].request.id << " was overtaken although there is room";
      // Whenever those that run may end: had it not started, the head would start no sooner.
      for (int world = 0; world < kWorlds; ++world) {
        draw_ends();
        const std::uint64_t without = start_of(jobs_[head]);
        run(job, gpus, now);
        const std::uint64_t with = start_of(jobs_[head]);
        running_.pop_back();
        waiting_.push_back(job);
        ASSERT_LE(with, without) << entry.request.id << " may delay " << jobs_[head].request.id;
      }
      ++backfilled;
      run(job, gpus, now);
    } else {
      run(job, gpus, now);
    }
    for (std::size_t gpu = 0; gpu < capacity_.size(); ++gpu)
      ASSERT_LE(used(static_cast<int>(gpu)).count(), capacity_[gpu].count()) << "over capacity";
  }

  /// After a step, the first in order must not have been left waiting beside room for it.
  void stepped(std::uint64_t now) {
    now_ = now;
    Job last;
    last.rank = std::numeric_limits<std::int64_t>::max();
    const std::size_t head = first_before(last);
    ASSERT_TRUE(head == kNone || !fits(jobs_[head]));
  }

  /// By those that run and have not ended before `from`.
  [[nodiscard]] Bytes used(int gpu, std::uint64_t from = 0) const {
    Bytes sum;
    for (const std::size_t job : running_) {
      const bool here = std::find(jobs_[job].gpus.begin(), jobs_[job].gpus.end(), gpu) != jobs_[job].gpus.end();
      if (here && (from == 0 || jobs_[job].may_end > from)) sum += need(jobs_[job]);
    }
    return sum;
  }

  int backfilled = 0;

 private:
  static constexpr int kWorlds = 12;
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  /// Ends that may be, as far as anybody can know: from the shortest known length that is still ahead on, or from now.
  void draw_ends() {
    for (const std::size_t job : running_) {
      const auto& expected = jobs_[job].request.expected;
      std::uint64_t soonest = now_;
      if (expected)
        for (const std::uint64_t length : expected->lengths_ns)
          if (soonest == now_ && jobs_[job].started + length > now_) soonest = jobs_[job].started + length;
      jobs_[job].may_end = random_() % 2 == 0 ? soonest : soonest + random_() % (7200 * kSecond);
    }
  }

  void run(std::size_t job, const std::vector<int>& gpus, std::uint64_t now) {
    std::erase(waiting_, job);
    jobs_[job].gpus = gpus;
    jobs_[job].started = now;
    const auto& expected = jobs_[job].request.expected;
    jobs_[job].may_end = expected ? now + expected->at_most_ns : kNever;
    running_.push_back(job);
  }

  [[nodiscard]] std::size_t first_before(const Job& job) const {
    std::size_t first = kNone;
    for (const std::size_t other : waiting_) {
      if (jobs_[other].rank < job.rank && (first == kNone || jobs_[other].rank < jobs_[first].rank)) first = other;
    }
    return first;
  }

  [[nodiscard]] bool fits(const Job& job, std::uint64_t at = 0) {
    const auto room = [&](int gpu) { return used(gpu, at) + need(job) <= capacity_[static_cast<std::size_t>(gpu)]; };
    if (!job.request.gpus.empty()) return std::all_of(job.request.gpus.begin(), job.request.gpus.end(), room);
    for (int gpu = 0; gpu < static_cast<int>(capacity_.size()); ++gpu) {
      if (room(gpu)) return true;
    }
    return false;
  }

  [[nodiscard]] std::uint64_t start_of(const Job& job) {
    std::vector<std::uint64_t> times{now_};
    for (const std::size_t other : running_) times.push_back(jobs_[other].may_end);
    std::sort(times.begin(), times.end());
    for (const std::uint64_t time : times) {
      if (time != kNever && fits(job, time)) return time;
    }
    return kNever;
  }

  std::vector<Bytes> capacity_;
  std::vector<Job>& jobs_;
  std::vector<std::size_t> waiting_, running_;
  std::uint64_t now_ = 0;
  std::mt19937_64 random_{7};
};

struct Outcome {
  std::uint64_t end = 0, longest_wait = 0;
  double waited = 0;  ///< together, in nanoseconds
  int granted = 0, expired = 0, lapsed = 0, backfilled = 0;
};

enum class What { kArrival, kCancel, kEnd, kLook };
struct Event {
  std::uint64_t time;
  What what;
  std::size_t job;
  bool operator>(const Event& other) const {
    return std::tie(time, what, job) > std::tie(other.time, other.what, other.job);
  }
};

Outcome simulate(std::vector<Job>& jobs, const std::vector<Bytes>& capacity) {
  LeaseQueue queue;
  Capacity devices;
  for (std::size_t gpu = 0; gpu < capacity.size(); ++gpu)
    devices.set_device(static_cast<int>(gpu), capacity[gpu], Bytes{0});
  queue.update(devices);
  Checker checker(capacity, jobs);
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    events.push({jobs[job].request.submitted_ns, What::kArrival, job});
    if (jobs[job].cancelled) events.push({jobs[job].request.submitted_ns + 90 * kSecond, What::kCancel, job});
    if (jobs[job].request.deadline_ns) events.push({*jobs[job].request.deadline_ns, What::kLook, job});
  }
  Outcome outcome;
  while (!events.empty()) {
    const std::uint64_t now = events.top().time;
    for (; !events.empty() && events.top().time == now; events.pop()) {
      const Event event = events.top();
      Job& job = jobs[event.job];
      if (event.what == What::kArrival) {
        EXPECT_TRUE(queue.submit(job.request));
        checker.submitted(event.job);
      } else if (event.what == What::kCancel && queue.cancel(job.request.id)) {
        checker.left(event.job);
      } else if (event.what == What::kEnd && queue.release(job.request.id)) {
        checker.ended(event.job);
      }
    }
    const StepResult result = queue.step(now);
    for (const Lease& lease : result.lapsed) {
      EXPECT_EQ(now, lease.granted_ns + kStartGrace);
      checker.ended(std::stoul(lease.request.id));
      ++outcome.lapsed;
    }
    for (const LeaseRequest& request : result.expired) checker.left(std::stoul(request.id)), ++outcome.expired;
    for (const Lease& lease : result.granted) {
      const std::size_t id = std::stoul(lease.request.id);
      checker.started(id, lease.gpus, now);
      if (testing::Test::HasFatalFailure()) return outcome;
      ++outcome.granted;
      outcome.waited += static_cast<double>(now - lease.request.submitted_ns);
      outcome.longest_wait = std::max(outcome.longest_wait, now - lease.request.submitted_ns);
      if (jobs[id].starts) queue.mark_running(lease.request.id);
      events.push(
          {now + (jobs[id].starts ? jobs[id].runs_ns : kStartGrace), jobs[id].starts ? What::kEnd : What::kLook, id});
      outcome.end = std::max(outcome.end, now + jobs[id].runs_ns);
    }
    checker.stepped(now);
    if (testing::Test::HasFatalFailure()) return outcome;
  }
  outcome.backfilled = checker.backfilled;
  EXPECT_EQ(queue.waiting(), 0U) << "somebody was left behind";
  for (std::size_t gpu = 0; gpu < capacity.size(); ++gpu)
    EXPECT_EQ(queue.capacity().free_on(static_cast<int>(gpu)), capacity[gpu]) << "a lease was left behind";
  return outcome;
}

/// Arrivals at `load` times what the devices can do. Times are distinct, so that ranks are.
std::vector<Job> arrivals(std::size_t count, double load, const std::vector<Bytes>& capacity, bool everything,
                          unsigned seed) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> minutes(1.6, 0.9);
  std::vector<Job> jobs(count);
  double area = 0, room = 0;
  for (const Bytes bytes : capacity) room += static_cast<double>(bytes.count());
  for (std::size_t i = 0; i < count; ++i) {
    Job& job = jobs[i];
    job.request.id = std::to_string(i);
    job.request.tenant = "t" + std::to_string(random() % 9);
    job.request.bytes = Bytes{(1 + random() % (random() % 8 == 0 ? 16'000 : 4'000)) << 20};
    job.request.priority = static_cast<int>(random() % 4 == 0 ? random() % 12 : 0);
    job.runs_ns = static_cast<std::uint64_t>(std::clamp(minutes(random), 0.2, 60.0) * 60e9);
    job.request.expected = RunLengths{{job.runs_ns}, job.runs_ns};
    if (everything) {
      job.request.expected->lengths_ns.insert(job.request.expected->lengths_ns.begin(),
                                              job.runs_ns * (40 + random() % 60) / 100);
      if (random() % 3 == 0) job.request.expected.reset();
      if (random() % 3 == 0) job.runs_ns = job.runs_ns * (50 + random() % 100) / 100;  // they were wrong about it
      if (random() % 10 == 0) job.request.gpus = {static_cast<int>(random() % capacity.size())};
      if (random() % 20 == 0) job.request.gpus = {0, 1};
      if (random() % 20 == 0) job.request.guarantee = job.request.bytes + 1_MiB;
      job.starts = random() % 30 != 0;
      job.cancelled = random() % 30 == 0;
    }
    area += static_cast<double>(need(job).count()) * static_cast<double>(job.runs_ns) *
            (job.request.gpus.size() == 2 ? 2 : 1);
  }
  std::uniform_real_distribution<double> when(0, area / room / load);
  std::vector<std::uint64_t> times;
  for (std::size_t i = 0; i < count; ++i) times.push_back(static_cast<std::uint64_t>(when(random)));
  std::sort(times.begin(), times.end());
  for (std::size_t i = 0; i < count; ++i) {
    jobs[i].request.submitted_ns = 3600 * kSecond + times[i];
    if (everything && random() % 20 == 0) jobs[i].request.deadline_ns = jobs[i].request.submitted_ns + 600 * kSecond;
  }
  return jobs;
}

const std::vector<Bytes> kNode{40_GiB, 40_GiB, 24_GiB};

TEST(LeaseQueueRandom, TenThousandArrivalsKeepEveryRuleAndNobodyStarves) {
  for (const unsigned seed : {1U, 2U}) {
    auto jobs = arrivals(10'000, 0.85, kNode, true, seed);
    const Outcome outcome = simulate(jobs, kNode);
    ASSERT_FALSE(HasFatalFailure());
    std::printf(
        "load 0.85, seed %u: %d granted (%d ahead of another), %d expired, %d lapsed, longest wait %.1f minutes\n",
        seed, outcome.granted, outcome.backfilled, outcome.expired, outcome.lapsed,
        static_cast<double>(outcome.longest_wait) / 60e9);
    EXPECT_GT(outcome.lapsed, 100);
    EXPECT_GT(outcome.backfilled, 100);
    EXPECT_LT(outcome.longest_wait, 4 * 3600 * kSecond) << "the longest program runs an hour";
  }
}

TEST(LeaseQueueRandom, AnOverloadedQueueKeepsEveryRule) {
  auto jobs = arrivals(3'000, 1.4, kNode, true, 4);
  const Outcome outcome = simulate(jobs, kNode);
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_GT(outcome.expired, 0);
}

/// No order of starting them, with all of it known beforehand and blocks of memory cut and moved at will, can be done
/// earlier: whatever arrives from some moment on needs its area.
double fractional_bound(const std::vector<Job>& jobs, double room) {
  double bound = 0, area = 0;
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    area += static_cast<double>(need(*job).count()) * static_cast<double>(job->runs_ns);
    bound = std::max(bound, static_cast<double>(job->request.submitted_ns) + area / room);
    bound = std::max(bound, static_cast<double>(job->request.submitted_ns + job->runs_ns));
  }
  return bound;
}

/// What the queue gains by knowing how long programs run: the same arrivals, with and without their past.
TEST(LeaseQueueRandom, KnownLengthsShortenTheWaitOfAll) {
  std::printf("seed   mean wait, minutes: unknown lengths   known lengths   passed: unknown   known\n");
  for (const unsigned seed : {11U, 12U, 13U}) {
    auto known = arrivals(5'000, 0.9, kNode, false, seed), unknown = known;
    for (Job& job : unknown) job.request.expected.reset();
    const Outcome with = simulate(known, kNode), without = simulate(unknown, kNode);
    ASSERT_FALSE(HasFatalFailure());
    const auto mean = [](const Outcome& outcome) { return outcome.waited / outcome.granted / 60e9; };
    std::printf("%4u %38.1f %15.1f %17d %7d\n", seed, mean(without), mean(with), without.backfilled, with.backfilled);
    RecordProperty("mean_wait_minutes_unknown_" + std::to_string(seed), std::to_string(mean(without)));
    RecordProperty("mean_wait_minutes_known_" + std::to_string(seed), std::to_string(mean(with)));
    EXPECT_LT(with.waited, without.waited);
    EXPECT_GT(with.backfilled, without.backfilled);
  }
}

TEST(LeaseQueueRandom, UtilisationIsWithinFivePercentOfAnyOfflinePacking) {
  for (const unsigned seed : {5U, 6U}) {
    auto jobs = arrivals(10'000, 1.02, kNode, false, seed);
    const double begin = static_cast<double>(jobs.front().request.submitted_ns);
    const Outcome outcome = simulate(jobs, kNode);
    ASSERT_FALSE(HasFatalFailure());
    const double bound = fractional_bound(jobs, static_cast<double>((104_GiB).count())) - begin;
    const double ratio = bound / (static_cast<double>(outcome.end) - begin);
    std::printf("load 1.02, seed %u: %.2f %% of the utilisation of a fractional offline packing\n", seed, ratio * 100);
    RecordProperty("utilisation_percent_seed_" + std::to_string(seed), std::to_string(ratio * 100));
    EXPECT_GT(ratio, 0.95);
  }
}

}  // namespace
}  // namespace ration::node
