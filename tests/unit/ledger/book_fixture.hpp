// A book in a file of its own, and child processes that are always collected. Used by the ledger's tests.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "ledger/book.hpp"

namespace ration::ledger {

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

}  // namespace ration::ledger
