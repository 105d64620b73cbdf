// An engine with a device and a clock that a test invents, and workloads of one real process each, which enter into
// their books what the test tells them to.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "book/book.hpp"
#include "config/configuration.hpp"
#include "node/engine/engine.hpp"

namespace ration::node {

using namespace literals;

/// Moves no memory: a job ends at the next tick, as the test wants.
class FakeJobs final : public CheckpointJobs {
 public:
  void start(const std::string& id, machine::CheckpointAction action, const std::vector<ProcessIdentity>&) override {
    started.push_back({id, action, machine::CheckpointOutcome{}});
  }
  std::vector<Finished> take_finished() override {
    if (!finish) return {};
    std::vector<Finished> done = std::exchange(started, {});
    for (Finished& each : done)
      if (problem) each.outcome = tl::unexpected(*problem);
    return done;
  }
  std::vector<Finished> started;
  bool finish = true;
  std::optional<Error> problem;
};

class InventedNode : public testing::Test {
 protected:
  static constexpr std::uint64_t kTick = kSecond;

  struct Order {
    char what = 0;
    std::uint64_t bytes = 0;
  };

  /// A workload with one process, which does what it is told.
  class Program {
   public:
    explicit Program(std::string path_of_book) : path(std::move(path_of_book)) {
      EXPECT_EQ(book::Book::open(path.c_str(), book), book::BookStatus::kOk);
      int orders[2], answers[2];
      EXPECT_EQ(::pipe2(orders, O_CLOEXEC), 0);
      EXPECT_EQ(::pipe2(answers, O_CLOEXEC), 0);
      pid = ::fork();
      if (pid == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL), obey(path, kept_alone(orders[0], answers[1]));
      ::close(orders[0]);
      ::close(answers[1]);
      orders_ = FileDescriptor(orders[1]);
      answers_ = FileDescriptor(answers[0]);
      EXPECT_EQ(told('?', Bytes{0}), 0) << "it could not enter its book";
    }
    ~Program() { kill(); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    bool take(Bytes bytes) { return told('t', bytes) == static_cast<std::int32_t>(book::Charged::kGranted); }
    void give_back(Bytes bytes) { (void)told('g', bytes); }
    void deny(Bytes bytes) { (void)told('d', bytes); }
    void begin_waiting(Bytes bytes) { (void)told('b', bytes); }
    void end_waiting(bool granted) { (void)told(granted ? 'y' : 'n', Bytes{0}); }
    void end(int status) {
      kill();
      book.mark_ended(status);
    }

    std::string path;
    book::Book book;  ///< as somebody else has it open
    pid_t pid = 0;

   private:
    void kill() {
      if (pid <= 0) return;
      ::kill(pid, SIGKILL);
      ::waitpid(std::exchange(pid, 0), nullptr, 0);
    }
    std::int32_t told(char what, Bytes bytes) {
      const Order order{what, bytes.count()};
      std::int32_t answer = -1;
      EXPECT_EQ(::write(orders_.get(), &order, sizeof order), static_cast<ssize_t>(sizeof order));
      EXPECT_EQ(::read(answers_.get(), &answer, sizeof answer), static_cast<ssize_t>(sizeof answer));
      return answer;
    }
    /// Closes all else: a lock of the daemon's, inherited, would outlive the daemon.
    static std::pair<int, int> kept_alone(int orders, int answers) {
      constexpr int kOrders = 3, kAnswers = 4;
      const int spare = ::fcntl(answers, F_DUPFD, kAnswers + 1);
      ::dup2(orders, kOrders);
      ::dup2(spare, kAnswers);
      ::close_range(kAnswers + 1, ~0U, 0);
      return {kOrders, kAnswers};
    }
    [[noreturn]] static void obey(const std::string& path, std::pair<int, int> pipes) {
      const auto [orders, answers] = pipes;
      book::Book own;
      std::int32_t answer = 1;
      if (book::Book::open(path.c_str(), own) == book::BookStatus::kOk && own.processes().attach()) answer = 0;
      for (Order order; ::read(orders, &order, sizeof order) == sizeof order;) {
        const Bytes bytes{order.bytes};
        if (order.what == 't') answer = static_cast<std::int32_t>(own.account(0).charge(bytes));
        if (order.what == 'g') own.account(0).refund(bytes);
        if (order.what == 'd')
          own.denials().record(0, bytes, book::DenialReason::kLimit, "cuMemAlloc_v2", book::kUnknownBytes, 0);
        if (order.what == 'b') own.waiting().begin(0, bytes);
        if (order.what == 'y') own.waiting().count_granted();
        if (order.what == 'y' || order.what == 'n') own.waiting().end();
        if (::write(answers, &answer, sizeof answer) != sizeof answer) break;
      }
      ::_exit(0);
    }

    FileDescriptor orders_, answers_;
  };

  InventedNode() {
    char pattern[] = "/tmp/ration-node-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    std::filesystem::create_directory(folder_ + "/books");
    device_.uuid = "GPU-01000000-0000-0000-0000-000000000000";
    device_.bytes = {1};
    device_.name = "invented";
    device_.total = 16_GiB;
    device_.free = 16_GiB;
    device_.reserved = Bytes{0};
    device_.processes.emplace();
    prepare_options();
  }
  ~InventedNode() override { std::filesystem::remove_all(folder_); }

  void prepare_options() {
    auto jobs = std::make_unique<FakeJobs>();
    jobs_ = jobs.get();
    options_ = {};
    options_.simulated = true;
    options_.checkpoint_jobs = std::move(jobs);
    options_.query_devices = [this] {
      machine::Machine machine;
      machine.devices.push_back(device_);
      return is_lost_ ? Result<machine::Machine>(fail("E1403", "the driver does not answer.")) : machine;
    };
  }
  void start(const std::string& configuration = "") {
    auto reading = config::parse_configuration({{"test.toml", configuration}});
    for (const FileProblem& problem : reading.problems) ADD_FAILURE() << place_text(problem) << ": " << problem.what;
    engine_ = std::make_unique<Engine>(std::move(options_), std::move(reading.configuration));
    ASSERT_TRUE(engine_->watch(folder_, ::getuid()));
  }

  Program& run(const std::string& name, Bytes limit, Bytes guarantee = Bytes{0},
               book::OnDeny on_deny = book::OnDeny::kFail, const std::string& labels = "") {
    book::NewBook contents;
    contents.name = name;
    contents.tenant = "nlp";
    contents.on_deny = on_deny;
    contents.labels = labels;
    return run(std::move(contents), limit, guarantee);
  }
  Program& run(book::NewBook contents, Bytes limit, Bytes guarantee) {
    contents.run_number = ++runs_;
    book::NewAccount account;
    account.device = device_.bytes;
    account.device_name = device_.name;
    account.device_total = device_.total;
    account.limit = limit;
    account.guarantee = guarantee;
    contents.accounts.push_back(account);
    engine_->subjects().allowed.add(::getuid(), contents.tenant);
    const std::string path = folder_ + "/books/" + contents.name + "." + std::to_string(runs_) + ".book";
    EXPECT_EQ(book::Book::create(path.c_str(), contents), book::BookStatus::kOk);
    return programs_.emplace_back(path);
  }
  /// What the driver says that those hold; nobody else holds anything.
  void driver_sees(const std::vector<std::pair<const Program*, Bytes>>& held) {
    device_.processes.emplace();
    device_.free = device_.total;
    for (const auto& [program, bytes] : held) {
      device_.processes->push_back({program->pid, bytes});
      *device_.free -= bytes;
    }
  }

  Events tick() {
    now_ns_ += kTick;
    Effects effects = engine_->tick(now_ns_, now_ns_ + jumped_ns_);
    for (std::string& path : effects.residency_changes.suspended)
      residency_changes_.suspended.push_back(std::move(path));
    for (auto& request : effects.residency_changes.resume_requests)
      residency_changes_.resume_requests.push_back(std::move(request));
    return std::move(effects.events);
  }
  /// What is told under that type in so many ticks.
  std::vector<std::string> told(const std::string& type, int ticks = 1) {
    std::vector<std::string> texts;
    for (; ticks > 0; --ticks)
      for (const Event& event : tick())
        if (name_of(event.type) == type) texts.push_back(event.text);
    return texts;
  }
  const OwnedLimit& limit_of(const Program& program) {
    return engine_->subjects().limits.limits.find(program.path)->accounts[0];
  }

  static std::size_t count(const Events& events, const std::string& type) {
    return static_cast<std::size_t>(
        std::count_if(events.begin(), events.end(), [&](const Event& event) { return name_of(event.type) == type; }));
  }

  std::string folder_;
  machine::Device device_;
  bool is_lost_ = false;
  FakeJobs* jobs_ = nullptr;  // the options', then the engine's
  NodeOptions options_;
  std::uint64_t now_ns_ = 1'700'000'000 * kTick, runs_ = 0;
  std::uint64_t jumped_ns_ = 0;  ///< by how much the clock was set, modulo 2^64: back is forward, too
  std::unique_ptr<Engine> engine_;
  ResidencyChanges residency_changes_;  ///< that no queue was told yet
  std::list<Program> programs_;
};

}  // namespace ration::node
