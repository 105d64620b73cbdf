// A store of its own and devices that are not there. Used by the tests of what is planned and sliced.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "../temporary.hpp"
#include "base/command.hpp"
#include "base/units.hpp"
#include "book/store.hpp"
#include "machine/devices.hpp"

namespace ration::admission {

using namespace literals;

class InventedMachine : public ::testing::Test {
 protected:
  static machine::Device device(int index, Bytes total = 16_GiB) {
    machine::Device made;
    made.index = index;
    made.bytes[0] = static_cast<decltype(made.bytes)::value_type>(index + 1);
    made.uuid = machine::uuid_text(made.bytes);
    made.name = "T4";
    made.total = total;
    made.free = total;
    return made;
  }

  /// A workload of this process: it runs as long as the test.
  void start(const std::string& name, const std::string& slice, Bytes guarantee = 0_B, int gpu = 0) const {
    book::NewBook book;
    book.name = name;
    book.slice = slice;
    book.tenant = "default";
    book.run_number = store_.next_run().value_or(99);
    book.accounts.push_back({device(gpu).bytes, "T4", 16_GiB, 8_GiB, guarantee, {}});
    ASSERT_EQ(book::Book::create(store_.path_of(name, book.run_number).c_str(), book), book::BookStatus::kOk);
  }

  TemporaryFolder folder_;
  TemporaryVariable runtime_{"RATION_RUNTIME_DIR", folder_.path().c_str()};
  TemporaryVariable chosen_{"CUDA_VISIBLE_DEVICES", nullptr};
  book::Store store_ = book::Store::open().value();
};

}  // namespace ration::admission
