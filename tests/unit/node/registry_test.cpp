// The registry over real books, real processes and real kills.
#include "node/books/registry.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "../stopped_at.hpp"
#include "book/book.hpp"
#include "book/container_books.hpp"
#include "book/layout.hpp"
#include "book/store_limits.hpp"
#include "node/snapshot/snapshot.hpp"

namespace ration::node {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using book::Book;
using book::BookStatus;

class RegistryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ration-registry-XXXXXX";
    folder_ = ::mkdtemp(folder);
    ASSERT_EQ(::mkdir((folder_ + "/books").c_str(), 0700), 0);
    ASSERT_TRUE(registry_.watch(folder_, ::getuid()));
  }
  void TearDown() override {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  std::string make(const std::string& name, std::uint64_t run, Bytes limit, const std::string& folder = "") {
    book::NewBook contents;
    contents.name = name;
    contents.tenant = "nlp";
    contents.run_number = run;
    book::NewAccount account;
    account.device = {1};
    account.device_name = "T4";
    account.device_total = 16_GiB;
    account.limit = limit;
    contents.accounts.push_back(account);
    const std::string path =
        (folder.empty() ? folder_ : folder) + "/books/" + name + "." + std::to_string(run) + ".book";
    EXPECT_EQ(Book::create(path.c_str(), contents), BookStatus::kOk);
    return path;
  }

  /// As a program can write: everything that slots and records of shared memory hold.
  static void fill(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    auto* layout = static_cast<book::BookLayout*>(
        ::mmap(nullptr, sizeof(book::BookLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    ::close(file);
    const ProcessIdentity self = current_process();
    for (std::uint32_t index = 0; index < book::kCommonSlot; ++index) {
      book::SlotRecord& slot = layout->slots[index];
      slot.pid = static_cast<std::int32_t>(index) + 1;
      slot.pid_namespace = self.pid_namespace + 1;  // of a container, say: their locks on the book tell that they live
      slot.state = book::state_word(1, book::SlotLife::kUsed);
    }
    layout->header.slot_bound = book::kCommonSlot;
    for (book::SharedRecord& record : layout->shared.records) {
      record.maker = 1;
      record.number = 1 + static_cast<std::uint64_t>(&record - layout->shared.records);
      for (auto& holders : record.holders) holders = ~std::uint64_t{0};
    }
    layout->shared.bound = book::kMaxShared;
    ::munmap(layout, sizeof(book::BookLayout));
  }

  /// A process that holds `bytes` until it is killed.
  pid_t hold(const std::string& path, Bytes bytes) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Book book;
      const bool good = Book::open(path.c_str(), book) == BookStatus::kOk && book.processes().attach() &&
                        book.account(0).charge(bytes) == book::Charged::kGranted;
      (void)!::write(ready[1], good ? "y" : "n", 1);
      for (;;) ::pause();
    }
    char answer = 'n';
    EXPECT_EQ(::read(ready[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    ::close(ready[0]);
    ::close(ready[1]);
    children_.push_back(child);
    return child;
  }
  void kill(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::erase(children_, child);
  }

  std::string folder_;
  Registry registry_;
  std::vector<pid_t> children_;
};

TEST_F(RegistryTest, ALinkInPlaceOfTheBooksIsNotFollowed) {
  hold(make("train", 1, 2_GiB), 1_GiB);
  std::filesystem::rename(folder_ + "/books", folder_ + "/elsewhere");
  std::filesystem::create_directory_symlink(folder_ + "/elsewhere", folder_ + "/books");
  EXPECT_TRUE(registry_.refresh().started.empty()) << "it could lead to devices";
  std::filesystem::remove(folder_ + "/books");
  std::filesystem::rename(folder_ + "/elsewhere", folder_ + "/books");
  EXPECT_EQ(registry_.refresh().started.size(), 1U);
}

TEST_F(RegistryTest, ItsCreatorIsBelievedOnlyIfItIsThere) {
  const std::string path = make("train", 1, 2_GiB);
  hold(path, 1_GiB);
  registry_.refresh();
  Workload workload = registry_.workloads().at(path);
  EXPECT_EQ(creator_of(workload), ::getpid());
  ++workload.book.creator.start_time;
  EXPECT_EQ(creator_of(workload), std::nullopt) << "somebody else has the number by now";
  --workload.book.creator.start_time;
  ++workload.owner;
  EXPECT_EQ(creator_of(workload), std::nullopt) << "it is somebody else's";
}

TEST_F(RegistryTest, TakesUpBooksThatAreThereAndThoseThatCome) {
  const std::string first = make("train", 1, 4_GiB);
  EXPECT_EQ(registry_.refresh().started, std::vector{first});
  const std::string second = make("serve", 2, 2_GiB);
  EXPECT_EQ(registry_.refresh().started, std::vector{second});
  EXPECT_TRUE(registry_.refresh().started.empty());
  EXPECT_EQ(registry_.workloads().size(), 2U);
  ASSERT_TRUE(registry_.named("serve"));
  EXPECT_EQ((*registry_.named("serve"))->book.accounts.front().limit, 2_GiB);
  EXPECT_EQ(*registry_.named("1"), *registry_.named("train"));
}

TEST_F(RegistryTest, WhatTheKilledHeldIsNotCounted) {
  const std::string path = make("train", 1, 4_GiB);
  const pid_t one = hold(path, 1_GiB);
  hold(path, 512_MiB);
  registry_.refresh();
  EXPECT_EQ(registry_.workloads().at(path).used.front(), 1536_MiB);
  kill(one);
  registry_.refresh();
  EXPECT_EQ(registry_.workloads().at(path).used.front(), 512_MiB);
  EXPECT_EQ(registry_.workloads().at(path).book.processes.size(), 1U);
}

TEST_F(RegistryTest, EndsWhenItSaysSoAndNobodyHoldsAnything) {
  const std::string path = make("train", 1, 4_GiB);
  const pid_t left_behind = hold(path, 1_GiB);
  registry_.refresh();
  Book book;
  ASSERT_EQ(Book::open(path.c_str(), book), BookStatus::kOk);
  book.mark_ended(3);
  EXPECT_TRUE(registry_.refresh().ended.empty()) << "a process of it still runs";
  kill(left_behind);
  const Changes changes = registry_.refresh();
  ASSERT_EQ(changes.ended.size(), 1U);
  EXPECT_EQ(changes.ended.front().book.exit_status, 3);
  EXPECT_TRUE(registry_.workloads().empty());
  EXPECT_TRUE(registry_.refresh().started.empty()) << "it came back";
}

TEST_F(RegistryTest, WhatItDoesUntilItsEndIsRead) {
  // The daemon reads the books, and then looks which processes are there: the workload ends at each step of that.
  constexpr int kEver = 1'000'000;
  int steps = 1;
  for (int step = 1; step <= steps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    int start[2], made[2];
    ASSERT_EQ(::pipe(start), 0);
    ASSERT_EQ(::pipe(made), 0);
    const pid_t workload = ::fork();
    if (workload == 0) {
      const std::string path = make("first-read", static_cast<std::uint64_t>(step), 1_GiB);
      Book book;
      const bool good = Book::open(path.c_str(), book) == BookStatus::kOk;
      (void)!::write(made[1], good ? "y" : "n", 1);
      char go = 0;
      if (::read(start[0], &go, 1) != 1) ::_exit(1);
      book.denials().record(0, 2_GiB, book::DenialReason::kLimit, "cuMemAlloc", book::kUnknownBytes, 0);
      book.mark_ended(3);
      ::_exit(0);
    }
    char answer = 'n';
    ASSERT_EQ(::read(made[0], &answer, 1), 1);
    ASSERT_EQ(answer, 'y');
    registry_.refresh();  // knows it
    if (step == 1) {
      const Stopped alone = stopped_at(kEver, [&] { return registry_.refresh().ended.empty() ? 0 : 1; });
      if (alone.steps == 0) GTEST_SKIP() << "no process may be traced here";
      steps = alone.steps;
    }
    enum Outcome { kGood, kLost, kTwice, kEndNotRead, kNeverEnded };
    const Stopped daemon = stopped_at(step, [&]() -> int {
      std::size_t denials = 0;
      for (int times = 0; times < 3; ++times) {
        const Changes changes = registry_.refresh();
        for (const auto& [path, each] : registry_.workloads()) denials += each.book.denials.size();
        if (changes.ended.empty()) continue;
        const book::BookSnapshot& book = changes.ended.front().book;
        denials += book.denials.size();
        if (book.ended_ns == 0 || book.exit_status != 3) return kEndNotRead;
        return denials == 1 ? kGood : denials == 0 ? kLost : kTwice;
      }
      return kNeverEnded;
    });
    ASSERT_FALSE(daemon.status) << "it ended before";
    ASSERT_EQ(::write(start[1], "g", 1), 1);
    ::waitpid(workload, nullptr, 0);
    const int status = let_go(daemon);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    ASSERT_EQ(WEXITSTATUS(status), kGood);
    registry_.refresh();
    for (const int end : {start[0], start[1], made[0], made[1]}) ::close(end);
  }
  EXPECT_GT(steps, 20);
}

TEST_F(RegistryTest, EveryDenialIsReportedOnce) {
  const std::string path = make("train", 1, 1_GiB);
  Book book;
  ASSERT_EQ(Book::open(path.c_str(), book), BookStatus::kOk);
  registry_.refresh();
  std::uint64_t seen = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < round; ++i)
      book.denials().record(0, 2_GiB, book::DenialReason::kLimit, "cuMemAlloc", book::kUnknownBytes, 0);
    registry_.refresh();
    for (const auto& denial : registry_.workloads().at(path).book.denials) EXPECT_EQ(denial.sequence, ++seen);
  }
  EXPECT_EQ(seen, 190U);
}

TEST_F(RegistryTest, ADamagedBookIsReportedOnceAndHarmsNobodyElse) {
  const std::string good = make("train", 1, 1_GiB);
  std::ofstream(folder_ + "/books/bad.2.book") << "not a book at all";
  ASSERT_EQ(::symlink(good.c_str(), (folder_ + "/books/link.3.book").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder_ + "/books/pipe.4.book").c_str(), 0600), 0);
  const Changes changes = registry_.refresh();
  EXPECT_EQ(changes.started, std::vector{good});
  EXPECT_TRUE(changes.damaged.empty()) << "they may be being made";
  std::size_t reported = 0;  // each at its own time
  for (const auto latest = std::chrono::steady_clock::now() + 20s; reported < 3;) {
    ASSERT_LT(std::chrono::steady_clock::now(), latest) << reported << " of 3";
    reported += registry_.refresh().damaged.size();
  }
  EXPECT_EQ(reported, 3U);
  EXPECT_TRUE(registry_.refresh().damaged.empty());
}

TEST_F(RegistryTest, ABookThatIsDamagedKeepsItsWorkloadUntilThatHasEnded) {
  const std::string path = make("train", 1, 4_GiB);
  const pid_t holder = hold(path, 1_GiB);
  registry_.refresh();
  ASSERT_EQ(::truncate(path.c_str(), 4096), 0);
  const Changes changes = registry_.refresh();
  EXPECT_EQ(changes.altered, std::vector{path});
  EXPECT_TRUE(changes.ended.empty());
  EXPECT_TRUE(registry_.refresh().altered.empty()) << "told once";
  const Workload& workload = registry_.workloads().at(path);
  EXPECT_FALSE(workload.unreadable.empty());
  EXPECT_EQ(workload.book.tenant, "nlp");
  EXPECT_EQ(workload.book.accounts.front().limit, 4_GiB);
  kill(holder);
  EXPECT_TRUE(registry_.refresh().ended.empty()) << "whoever started it is there";
}

class Granted : public RegistryTest {
 protected:
  /// As a container's hook makes it, of a process that sleeps.
  std::string make_granted(const std::string& name, Bytes limit, const std::string& engine = "",
                           std::uint32_t user = ::getuid()) {
    first_ = ::fork();
    if (first_ == 0)
      for (;;) ::pause();
    children_.push_back(first_);
    book::NewBook contents;
    contents.name = name;
    contents.tenant = "nlp";
    contents.run_number = 7;
    contents.labels = engine.empty() ? "container=" + name : "engine=" + engine;
    contents.creator = identity_of(first_);
    contents.creator->user = user;
    book::NewAccount account;
    account.device = {1};
    account.device_total = 16_GiB;
    account.limit = limit;
    contents.accounts.push_back(account);
    const std::string path = folder_ + "/books/" + name + ".7.book";
    EXPECT_EQ(book::create_granted(path, contents, std::nullopt), BookStatus::kOk);
    return path;
  }
  static void write(const std::string& path, std::size_t offset, const std::string& text) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file << text;
  }
  Workload seen_by_another_daemon(const std::string& path, std::uint32_t owner = ::getuid()) {
    Registry another;
    EXPECT_TRUE(another.watch(folder_, owner));
    another.refresh();
    const auto found = another.workloads().find(path);
    EXPECT_NE(found, another.workloads().end());
    return found == another.workloads().end() ? Workload{} : found->second;
  }
  pid_t first_ = 0;
};

TEST_F(Granted, WhatItIsStaysAsGrantedWhateverItsBookSays) {
  const std::string path = make_granted("web", 4_GiB);
  registry_.refresh();
  write(path, offsetof(book::BookHeader, tenant), "vision");
  write(path, offsetof(book::BookHeader, name), "other");
  write(path, offsetof(book::BookHeader, labels), "container=other");
  write(path, offsetof(book::BookHeader, ended_ns), "x");
  write(path, offsetof(book::BookHeader, creator_pid), std::string("\1\0\0\0", 4));
  EXPECT_TRUE(registry_.refresh().ended.empty());
  for (const Workload& workload : {registry_.workloads().at(path), seen_by_another_daemon(path)}) {
    EXPECT_EQ(workload.book.tenant, "nlp");
    EXPECT_EQ(workload.book.name, "web");
    EXPECT_EQ(workload.book.labels, "container=web");
    EXPECT_EQ(workload.book.creator.pid, first_);
    EXPECT_EQ(workload.granted.front().limit, 4_GiB);
  }
}

TEST_F(Granted, WhoseJobItIsIsBelievedOfRootAlone) {
  const std::string path = make_granted("slurm-1", 4_GiB, "slurm", 4242);
  EXPECT_EQ(seen_by_another_daemon(path, ::getuid()).person, ::getuid() == 0 ? 4242U : ::getuid());
  constexpr uid_t kSomebody = 4243;
  for (const std::string& each : {folder_, folder_ + "/books", path, book::granted_path(path)})
    if (::chown(each.c_str(), kSomebody, static_cast<gid_t>(-1)) != 0) GTEST_SKIP() << "not root";
  EXPECT_EQ(seen_by_another_daemon(path, kSomebody).person, kSomebody);
}

TEST_F(Granted, ItStaysUntilItsFirstProcessHasEndedAndLeavesNothing) {
  const std::string path = make_granted("web", 4_GiB);
  registry_.refresh();
  for (const off_t size : {off_t{0}, off_t{4096}, off_t{1} << 40}) {
    ASSERT_EQ(::truncate(path.c_str(), size), 0);
    EXPECT_TRUE(registry_.refresh().ended.empty());
    const Workload again = seen_by_another_daemon(path);
    EXPECT_EQ(again.book.name, "web");
    EXPECT_EQ(again.granted.front().limit, 4_GiB);
    EXPECT_FALSE(again.unreadable.empty());
  }
  kill(first_);
  EXPECT_EQ(registry_.refresh().ended.size(), 1U);
  Registry another;
  ASSERT_TRUE(another.watch(folder_, ::getuid()));
  const Changes changes = another.refresh();
  EXPECT_EQ(changes.abandoned, std::vector{path});
  EXPECT_TRUE(changes.damaged.empty());
  book::retire(path);
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing can be read of it";
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/granted"));
}

TEST_F(Granted, AFileThatIsLongerThanABookIsToldUntilItIsCut) {
  const std::string path = make_granted("web", 4_GiB);
  registry_.refresh();
  const auto whole = std::filesystem::file_size(path);
  ASSERT_EQ(::truncate(path.c_str(), off_t{1} << 40), 0);
  const Changes changes = registry_.refresh();
  ASSERT_EQ(changes.grown.size(), 1U);
  EXPECT_EQ(changes.grown.front().second, Bytes{std::uint64_t{1} << 40});
  EXPECT_TRUE(changes.altered.empty()) << "it can be read";
  EXPECT_FALSE(book::cut_to_size(registry_.workloads().at(path).descriptor, ::getuid() + 1));
  EXPECT_TRUE(book::cut_to_size(registry_.workloads().at(path).descriptor, ::getuid()));
  EXPECT_EQ(std::filesystem::file_size(path), whole);
  EXPECT_TRUE(registry_.refresh().grown.empty());
}

TEST_F(Granted, ASlotWithTheNumberOfSomebodyElseLivesNoLongerThanItsLock) {
  const std::string path = make_granted("web", 4_GiB);
  const pid_t holder = hold(path, 1_GiB);
  registry_.refresh();
  EXPECT_EQ(registry_.workloads().at(path).used.front(), 1_GiB);
  const ProcessIdentity self = current_process();  // lives longer than the container
  write(path, offsetof(book::BookLayout, slots[0].pid), std::string(reinterpret_cast<const char*>(&self.pid), 4));
  write(path, offsetof(book::BookLayout, slots[0].start_time),
        std::string(reinterpret_cast<const char*>(&self.start_time), 8));
  kill(holder);
  kill(first_);
  EXPECT_EQ(registry_.refresh().ended.size(), 1U);
}

TEST_F(RegistryTest, ABookThatIsBeingMadeIsTakenUpWhenItIsDone) {
  const std::string done = make("train", 1, 1_GiB);
  std::string content;
  {
    std::ifstream file(done, std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(file), {});
  }
  const std::string path = folder_ + "/books/serve.2.book";
  { std::ofstream(path, std::ios::binary) << std::string(content.size(), '\0'); }
  EXPECT_EQ(registry_.refresh().started, std::vector{done});
  { std::ofstream(path, std::ios::binary) << content; }
  EXPECT_EQ(registry_.refresh().started, std::vector{path});
}

TEST_F(RegistryTest, AFolderCountsOnceHoweverItIsSpelled) {
  hold(make("train", 1, 4_GiB), 1_GiB);
  for (const char* tail : {"", "/", "//", "/.", "/./", "/books/.."}) {
    ASSERT_TRUE(registry_.watch(folder_ + tail, ::getuid())) << tail;
  }
  EXPECT_EQ(registry_.folders().size(), 1U);
  registry_.refresh();
  EXPECT_EQ(registry_.workloads().size(), 1U);
}

TEST_F(RegistryTest, ABookUnderTwoNamesIsNone) {
  const std::string path = make("train", 1, 4_GiB);
  std::filesystem::create_hard_link(path, folder_ + "/books/twin.2.book");
  ASSERT_TRUE(registry_.watch(folder_, ::getuid()));
  registry_.refresh();
  EXPECT_TRUE(registry_.workloads().empty());
}

TEST_F(RegistryTest, AProcessCountsUnderOneBook) {
  const std::string good = make("train", 1, 4_GiB);
  const pid_t holder = hold(good, 1_GiB);
  registry_.refresh();
  std::filesystem::copy_file(good, folder_ + "/books/a-copy.2.book");
  registry_.refresh();
  registry_.refresh();
  Bytes sum;
  for (const auto& [path, workload] : registry_.workloads()) sum += workload.used.front();
  EXPECT_EQ(sum, 1_GiB);
  EXPECT_EQ(registry_.workloads().at(good).used.front(), 1_GiB) << "the one that was there first";
  kill(holder);
}

TEST_F(RegistryTest, BooksThatNameWhateverThereIsRoomForCostLittle) {
  const std::string one = make("one", 1, 4_GiB), other = folder_ + "/books/other.2.book";  // the same
  fill(one);
  std::filesystem::copy_file(one, other);
  std::vector<FileDescriptor> locked;
  for (const std::string& path : {one, other}) {
    struct flock lock {};
    lock.l_type = F_RDLCK;
    lock.l_len = book::kMaxProcesses;
    locked.emplace_back(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::fcntl(locked.back().get(), F_OFD_SETLK, &lock), 0);
  }
  const auto memory = [] { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; };
  const std::size_t before = memory();
  registry_.refresh();
  ASSERT_EQ(registry_.workloads().at(one).book.processes.size(), book::kCommonSlot);
  ASSERT_TRUE(registry_.workloads().at(other).book.processes.empty()) << "a process counts under one book";
  EXPECT_LT(memory() - before, 3 * sizeof(book::BookLayout)) << "not much more than the two files";
  registry_.refresh();
  const std::size_t twice = memory();
  for (int times = 0; times < 20; ++times) registry_.refresh();
  EXPECT_LT(memory(), twice + 20 * sizeof(ProcessIdentity)) << "not one process more to know of at each tick";
}

TEST_F(RegistryTest, WhatOneUserWritesIntoManyBooksIsReadToABoundAndTakesNothingFromAnotherTenant) {
  constexpr std::size_t kOfOne = book::kCommonSlot + book::kMaxShared;
  constexpr std::size_t kRead = (Registry::kMaxEntries + kOfOne - 1) / kOfOne, kBooks = kRead + 5;
  registry_.set_tenant_rule([](const Workload& each) { return each.book.name == "z" ? "vision" : "nlp"; });
  const std::string first = make("a0", 1, 4_GiB);
  fill(first);
  for (std::size_t book = 1; book < kBooks; ++book)
    std::filesystem::copy_file(first, folder_ + "/books/b" + std::to_string(book) + ".1.book");
  const std::string other = make("z", 2, 4_GiB);
  for (int look = 0; look < 6; ++look) registry_.refresh();
  ASSERT_EQ(registry_.workloads().size(), kBooks + 1) << "taken up over several looks";
  const auto unread = std::count_if(registry_.workloads().begin(), registry_.workloads().end(), [](const auto& each) {
    return !each.second.unreadable.empty() && each.second.book.shared_memory.empty();
  });
  EXPECT_EQ(unread, 5);
  EXPECT_TRUE(registry_.workloads().at(first).unreadable.empty());
  EXPECT_TRUE(registry_.workloads().at(other).unreadable.empty()) << "of another tenant";
}

TEST_F(RegistryTest, OneUsersBooksAreBoundedOverAllFolders) {
  const std::string second = folder_ + "/second";
  ASSERT_EQ(::mkdir(second.c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((second + "/books").c_str(), 0700), 0);
  ASSERT_TRUE(registry_.watch(second, ::getuid()));
  for (std::size_t run = 0; run < Registry::kMaxBooks + 20; ++run)
    (void)make("train", run, 4_GiB, run % 2 == 0 ? folder_ : second);
  registry_.refresh();
  ASSERT_EQ(registry_.workloads().size(), Registry::kMaxBooks);
  std::filesystem::remove(registry_.workloads().rbegin()->first);
  registry_.refresh();
  registry_.refresh();
  EXPECT_EQ(registry_.workloads().size(), Registry::kMaxBooks) << "another in the place of the one that is gone";
}

TEST_F(RegistryTest, NumbersThatCannotBeAreDamage) {
  const std::string path = make("train", 1, 4_GiB);
  registry_.refresh();
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 0x70);  // the peak of the first account
  const std::uint64_t much = ~std::uint64_t{0} >> 4;
  file.write(reinterpret_cast<const char*>(&much), sizeof much);
  file.close();
  EXPECT_EQ(registry_.refresh().altered, std::vector{path});
  EXPECT_FALSE(registry_.workloads().at(path).unreadable.empty());
}

TEST_F(RegistryTest, OnlyFoldersOfTheUserAreAdopted) {
  EXPECT_EQ(registry_.watch(folder_, ::getuid() + 1).error().exit_code, 5);
  EXPECT_FALSE(registry_.watch(folder_ + "/nothing", ::getuid()));
  EXPECT_FALSE(registry_.watch("relative", ::getuid()));
  ASSERT_EQ(::symlink("/", (folder_ + "/root").c_str()), 0);
  EXPECT_FALSE(registry_.watch(folder_ + "/root", ::getuid()));
}

TEST_F(RegistryTest, TheSnapshotAddsUpToTheDriversNumber) {
  const std::string path = make("train", 1, 4_GiB);
  const pid_t governed = hold(path, 1_GiB);
  registry_.refresh();
  machine::Machine machine;
  machine::Device device;
  device.uuid = "GPU-x";
  device.bytes = {1};
  device.total = 16_GiB;
  device.free = 12_GiB;
  device.processes = {{governed, 1100_MiB}, {::getpid(), 2_GiB}, {1, std::nullopt}};
  machine.devices.push_back(device);
  const Snapshot now = build_snapshot(registry_, machine, {}, 1);
  ASSERT_EQ(now.devices.size(), 1U);
  const DeviceView& view = now.devices.front();
  EXPECT_EQ(view.governed, 1_GiB);
  EXPECT_EQ(view.ungoverned, 2_GiB);
  EXPECT_EQ(view.governed + view.ungoverned + view.unexplained.value(), view.used());
  ASSERT_EQ(now.ungoverned.size(), 2U);
  ASSERT_EQ(now.accounts.size(), 1U);
  EXPECT_EQ(now.accounts.front().processes.front().driver_used, 1100_MiB);
  EXPECT_EQ(now.accounts.front().processes.front().state, ProcessState::kGoverned);
}

TEST_F(RegistryTest, WhoEndedSinceTheDriverWasAskedIsNotUngoverned) {
  const std::string path = make("train", 1, 4_GiB);
  const pid_t governed = hold(path, 1_GiB);
  registry_.refresh();
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  siginfo_t how;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(ended), &how, WEXITED | WNOWAIT), 0);
  machine::Machine machine;
  machine::Device device;
  device.bytes = {1};
  device.total = 16_GiB;
  device.processes = {{governed, 1_GiB}, {ended, 2_GiB}};
  machine.devices.push_back(device);
  EXPECT_TRUE(build_snapshot(registry_, machine, {}, 1).ungoverned.empty()) << "not yet waited for";
  ASSERT_EQ(::waitpid(ended, nullptr, 0), ended);
  EXPECT_TRUE(build_snapshot(registry_, machine, {}, 1).ungoverned.empty());
}

TEST_F(RegistryTest, AProcessFarOverItsBookIsAViolator) {
  const std::string path = make("train", 1, 4_GiB);
  const pid_t governed = hold(path, 1_GiB);
  registry_.refresh();
  machine::Machine machine;
  machine::Device device;
  device.bytes = {1};
  device.total = 16_GiB;
  device.processes = {{governed, 3_GiB}};
  machine.devices.push_back(device);
  EXPECT_EQ(build_snapshot(registry_, machine, {}, 1).accounts.front().processes.front().state,
            ProcessState::kViolator);
}

TEST_F(RegistryTest, AFolderOfAnotherDaemonAndABookOfAnotherNodeAreLeftAlone) {
  bool anothers = false;
  registry_.set_folder_rule([&](const std::string&) { return anothers; });
  registry_.set_node_rule([](const Workload& each) { return each.book.name != "elsewhere"; });
  make("elsewhere", 1, 1_GiB);
  const std::string path = make("here", 2, 1_GiB);
  EXPECT_EQ(registry_.refresh().started, std::vector<std::string>{path});
  anothers = true;
  const Changes changes = registry_.refresh();
  ASSERT_EQ(changes.handed_over.size(), 1U);
  EXPECT_EQ(changes.handed_over.front().path, path);
  EXPECT_TRUE(changes.ended.empty()) << "it goes on";
  EXPECT_TRUE(registry_.workloads().empty());
  anothers = false;
  EXPECT_EQ(registry_.refresh().started, std::vector<std::string>{path});
}

}  // namespace
}  // namespace ration::node
