// Programs with a random mixture of plain, managed and shared memory, and a daemon that is asked to suspend and resume
// them at random, while they work: none ever dies of it, and those with plain memory alone do get moved. The daemon's
// node and its jobs are in this process, the programs are real ones behind the guard. RATION_SIM names the driver.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/clock.hpp"
#include "base/time.hpp"
#include "book/book.hpp"
#include "node/engine/engine.hpp"
#include "node/residency/residency.hpp"
#include "node/residency/residency_requests.hpp"

namespace ration::node {
namespace {

using namespace literals;

const std::string driver_folder = [] {
  const std::string spec = std::getenv("RATION_SIM");
  return SIM_FOLDER "/drivers/" + spec.substr(spec.find("driver=") + 7);
}();

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// In this very process, one after the other: how the daemon's own jobs are started is not what is tried here.
class JobsHere final : public CheckpointJobs {
 public:
  explicit JobsHere(std::string runtime_folder) : runtime_folder_(std::move(runtime_folder)) {}
  void start(const std::string& id, machine::CheckpointAction action,
             const std::vector<ProcessIdentity>& processes) override {
    finished_.push_back({id, action, move_memory(driver_folder, action, processes, id, runtime_folder_)});
  }
  std::vector<Finished> take_finished() override { return std::exchange(finished_, {}); }

 private:
  std::string runtime_folder_;
  std::vector<Finished> finished_;
};

/// `ration-workload obey` under a book of its own.
struct Program {
  std::string name, book;
  pid_t pid = 0;
  int orders = -1, answers = -1;
  int unanswered = 0;
  bool managed = false, shared = false;

  void tell(const std::string& order) {
    ASSERT_EQ(::write(orders, (order + "\n").data(), order.size() + 1), static_cast<ssize_t>(order.size() + 1));
    ++unanswered;
  }
  /// Of all that it was told. False: one of the answers is an error, or it has ended.
  bool answers_well() {
    bool good = true;
    for (std::string line; unanswered > 0;) {
      char letter = 0;
      pollfd waited{answers, POLLIN, 0};
      if (::poll(&waited, 1, 60'000) != 1 || ::read(answers, &letter, 1) != 1) return false;
      if (letter != '\n') {
        line += letter;
        continue;
      }
      good = good && line == "0";
      line.clear();
      --unanswered;
    }
    return good;
  }
};

class SuspendRandomTest : public ::testing::Test {
 protected:
  static constexpr int kAtOnce = 8;

  // One simulated node for all tests: the driver in this process is asked for its devices once.
  static void SetUpTestSuite() {
    char pattern[] = "/tmp/ration-random-node-XXXXXX";
    node_folder_ = ::mkdtemp(pattern);
    ::setenv("RATION_SIM_DIR", node_folder_.c_str(), 1);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(node_folder_); }

  void SetUp() override {
    char pattern[] = "/tmp/ration-random-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    ASSERT_EQ(::mkdir((folder_ + "/books").c_str(), 0700), 0);
    const auto machine = machine::query_devices(driver_folder);
    ASSERT_TRUE(machine) << machine.error().what;
    device_ = machine->devices.front();
    if (shared_is_moved())  // as `ration doctor --try-suspend` finds it
      machine::remember_suspension(device_, machine->driver_version, folder_, {true, true});
    NodeOptions options;
    options.driver_folder = driver_folder;
    options.simulated = true;
    options.runtime_folder = folder_;
    options.checkpoint_jobs = std::make_unique<JobsHere>(folder_);
    engine_ = std::make_unique<Engine>(std::move(options), config::Configuration{});
    ASSERT_TRUE(engine_->watch(folder_, ::getuid()));
  }
  void TearDown() override {
    for (Program& program : programs_) end(program);
    engine_.reset();
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] static bool shared_is_moved() { return setting("SHARED_IS_MOVED", 0) != 0; }

  void start(const std::string& name, int socket, Bytes limit = 1_GiB) {
    Program program;
    program.name = name;
    program.book = folder_ + "/books/" + name + ".book";
    book::NewBook contents;
    contents.name = name;
    contents.tenant = "default";
    contents.run_number = ++runs_;
    contents.accounts.push_back({device_.bytes, device_.name, device_.total, limit, {}, 64_MiB});
    ASSERT_EQ(book::Book::create(program.book.c_str(), contents), book::BookStatus::kOk);
    int to[2], from[2];
    ASSERT_EQ(::pipe2(to, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(from, O_CLOEXEC), 0);
    program.pid = ::fork();
    if (program.pid == 0) {
      ::dup2(to[0], STDIN_FILENO);
      ::dup2(from[1], STDOUT_FILENO);
      const int inherited = ::dup(socket);
      ::setenv("RATION_BOOK", program.book.c_str(), 1);
      ::setenv("RATION_DRIVER_PATH", driver_folder.c_str(), 1);
      ::setenv("LD_PRELOAD", SHIM_FOLDER "/libcuda.so.1:" SHIM_FOLDER "/libnvidia-ml.so.1", 1);
      ::execl(WORKLOAD, WORKLOAD, "obey", "--socket", std::to_string(inherited).c_str(), nullptr);
      ::_exit(127);
    }
    ::close(to[0]), ::close(from[1]);
    program.orders = to[1], program.answers = from[0];
    programs_.push_back(program);
  }

  void end(Program& program) {
    ::kill(program.pid, SIGKILL);
    ::waitpid(program.pid, nullptr, 0);
    ::close(program.orders), ::close(program.answers);
    ::unlink(program.book.c_str());
  }

  Residency& residency() { return engine_->subjects().residency; }
  void look() {
    const Effects effects = engine_->tick(steady_time_ns(), unix_time_ns());
    for (const auto& request : effects.residency_changes.resume_requests)
      residency().approve_resume(engine_->moment(), request.path);
  }

  [[nodiscard]] std::string state(const Program& program) const {
    const AccountView* account = engine_->snapshot().account_of(program.book, 0);
    return account == nullptr ? "gone" : account->suspended ? "suspended" : "here";
  }

  /// Asks, and looks until it is done. Empty: it is suspended now.
  std::string suspend(const Program& program) {
    Events events;
    if (const auto begun = node::suspend(engine_->moment(), residency(), program.name, caller_, events); !begun)
      return begun.error().what;
    look();
    return state(program) == "suspended" ? "" : "it was not suspended";
  }

  void order_something(std::size_t number) {
    Program& program = programs_[number];
    const bool gives = number % 2 == 0;
    Program& other = programs_[gives ? number + 1 : number - 1];
    const int kind = kinds_[number % kAtOnce];
    const int what = pick(6);
    if (what == 0) return program.tell("free");
    if (what == 1 && (kind & 1) != 0) return program.managed = true, program.tell("managed 2");
    if (what == 2 && (kind & 2) != 0 && gives) {
      constexpr const char* kForms[] = {"ipc 2", "descriptor 2", "pool 2"};
      program.shared = other.shared = true;
      program.tell(kForms[pick(3)]);
      other.tell("receive");
      return other.tell("import");
    }
    program.tell(fmt::format("take {}", 1 + pick(3)));
  }

  int pick(int below) { return std::uniform_int_distribution(0, below - 1)(random_); }

  void run_together(int first) {
    programs_.clear();
    for (int pair = 0; pair < kAtOnce / 2; ++pair) {
      int ends[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
      const int shares = pick(2) * 2;
      for (int side = 0; side < 2; ++side) {
        const int number = 2 * pair + side;
        kinds_[number] = shares | pick(2);
        ASSERT_NO_FATAL_FAILURE(start(fmt::format("program-{}", first + number), ends[side]));
        ::close(ends[side]);
      }
    }
    for (Program& program : programs_) {
      program.tell("take 4");
      ASSERT_TRUE(program.answers_well()) << program.name;
    }
    look();
    for (int step = 0; step < 6 * kAtOnce; ++step) {
      const auto number = static_cast<std::size_t>(pick(kAtOnce));
      Events events;
      switch (pick(4)) {
        case 0:
          (void)node::suspend(engine_->moment(), residency(), programs_[number].name, caller_, events);
          break;
        case 1:
          (void)node::resume(engine_->moment(), residency(), programs_[number].name, caller_);
          break;
        default:
          order_something(number);
      }
      if (pick(2) == 0) look();
    }
    bring_all_back();
    for (Program& program : programs_) EXPECT_TRUE(program.answers_well()) << program.name << " died of its suspension";
    look();
    for (Program& program : programs_) {
      const std::string refusal = suspend(program);
      const bool movable = !program.managed && (!program.shared || shared_is_moved());
      EXPECT_EQ(refusal.empty(), movable) << program.name << ": " << refusal;
      (movable ? moved_ : refused_) += 1;
    }
    bring_all_back();
    for (Program& program : programs_) {
      program.tell("take 1");
      EXPECT_TRUE(program.answers_well()) << program.name << " died of its suspension";
      end(program);
    }
    programs_.clear();
    look();
  }

  void bring_all_back() {
    const auto all_here = [&] {
      return std::all_of(programs_.begin(), programs_.end(),
                         [&](const Program& each) { return state(each) == "here"; });
    };
    for (int looks = 0; looks < 100 && (looks < 2 || !all_here()); ++looks) {
      for (const Program& program : programs_)
        (void)node::resume(engine_->moment(), residency(), program.name, caller_);
      look();
    }
    EXPECT_TRUE(all_here());
  }

  inline static std::string node_folder_;
  std::string folder_;
  machine::Device device_;
  std::unique_ptr<Engine> engine_;
  std::vector<Program> programs_;
  int kinds_[kAtOnce] = {};  // bit 0: managed memory, bit 1: shared with its neighbour
  std::uint64_t runs_ = 0;
  int moved_ = 0, refused_ = 0;
  std::mt19937 random_;
  const Caller caller_{"root", std::nullopt, true};
};

TEST_F(SuspendRandomTest, NoProgramDiesOfItsSuspension) {
  const int seed = setting("SEED", 17), count = setting("PROGRAMS", 1000);
  fmt::print("{}, seed {} (SEED), {} programs (PROGRAMS)\n", std::getenv("RATION_SIM"), seed, count);
  random_.seed(static_cast<unsigned>(seed));
  for (int first = 0; first < count && !HasFailure(); first += kAtOnce) run_together(first);
  fmt::print("{} moved, {} refused\n", moved_, refused_);
  EXPECT_GT(moved_, count / 8);
  EXPECT_GT(refused_, count / 8);
}

// After one restore without room no other succeeds: it is not tried where the room is only just there.
TEST_F(SuspendRandomTest, ItComesBackOnlyWhereThereIsMoreRoomThanItNeeds) {
  for (const char* name : {"leaves", "takes"}) ASSERT_NO_FATAL_FAILURE(start(name, STDERR_FILENO, 16_GiB));
  Program& leaves = programs_[0];
  Program& takes = programs_[1];
  leaves.tell("take 1024");
  takes.tell("take 1");
  ASSERT_TRUE(leaves.answers_well() && takes.answers_well());
  look();
  ASSERT_EQ(suspend(leaves), "");
  takes.tell(fmt::format("take {}", (16_GiB - 1_GiB - 64_MiB - 64_MiB - 100_MiB).count() >> 20));
  ASSERT_TRUE(takes.answers_well());
  ASSERT_TRUE(node::resume(engine_->moment(), residency(), leaves.name, caller_));
  for (int looks = 0; looks < 5; ++looks) look();
  EXPECT_EQ(state(leaves), "suspended");
  takes.tell("free");
  ASSERT_TRUE(takes.answers_well());
  bring_all_back();
  leaves.tell("take 1");
  EXPECT_TRUE(leaves.answers_well());
}

}  // namespace
}  // namespace ration::node
