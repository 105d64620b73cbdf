// A book in a file of its own, and child processes that are always collected. Used by the book's tests.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "book/book.hpp"

namespace ration::book {

/// A word that this process and its children share.
struct SharedWord {
  std::atomic<std::uint64_t>* word = static_cast<std::atomic<std::uint64_t>*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ~SharedWord() { ::munmap(word, 4096); }
  std::atomic<std::uint64_t>& operator*() const { return *word; }
};

/// Waits until `word` is at least `value`; ends the test, or the child that waits, after 20 s.
inline void wait_until(const std::atomic<std::uint64_t>& word, std::uint64_t value) {
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (word.load() < value) {
    if (std::chrono::steady_clock::now() > latest)
      throw std::runtime_error("never: a shared word is " + std::to_string(value) + "; it is " +
                               std::to_string(word.load()));
    std::this_thread::yield();
  }
}

class BookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ration-book-XXXXXX";
    folder_ = ::mkdtemp(folder);
    path_ = folder_ + "/one.book";
  }
  void TearDown() override {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }

  static NewBook one_device(Bytes limit) {
    NewBook contents;
    contents.name = "test";
    contents.run_number = 7;
    NewAccount account;
    account.device = {1, 2, 3};
    account.device_name = "T4";
    account.device_total = Bytes{std::uint64_t{16} << 30};
    account.limit = limit;
    contents.accounts.push_back(account);
    return contents;
  }

  void make(Bytes limit) { ASSERT_EQ(Book::create(path_.c_str(), one_device(limit)), BookStatus::kOk); }

  [[nodiscard]] Book open() const {
    Book book;
    EXPECT_EQ(Book::open(path_.c_str(), book), BookStatus::kOk);
    return book;
  }

  /// Runs `work` in a child process, which ends with its return value.
  template <typename Work>
  pid_t start(Work&& work) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work());
    children_.push_back(child);
    return child;
  }

  int finish(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    std::erase(children_, child);
    return status;
  }

  [[nodiscard]] BookSnapshot snapshot() const {
    BookSnapshot copy;
    EXPECT_EQ(Book::read(path_.c_str(), copy), BookStatus::kOk);
    return copy;
  }

  std::string folder_, path_;
  std::vector<pid_t> children_;
};

}  // namespace ration::book
