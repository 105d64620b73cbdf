// Messages are data: each id of the table renders, and what a message is filled with can be read back.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/message_json.hpp"
#include "base/result.hpp"
#include "base/say.hpp"

namespace ration {
namespace {

using namespace literals;
using nlohmann::json;

/// Each argument of `row` with its name as its text; without those in `[…]` where `is_short`.
Message rendered(const MessageRow& row, bool is_short) {
  std::vector<messages::Filled> given;
  messages::each_argument(row.english, [&](std::string_view name, bool is_optional) {
    given.push_back({name, "<" + std::string(name) + ">", "1", is_short && is_optional});
  });
  return messages::make(row, given.data(), given.size());
}

TEST(MessageTable, EachIdRendersWithAndWithoutWhatMayBeAbsent) {
  for (const MessageRow& row : kMessageTable) {
    const Message all = rendered(row, false), least = rendered(row, true);
    std::string expected(row.english);
    for (char& letter : expected) letter = letter == '{' ? '<' : letter == '}' ? '>' : letter;
    std::erase_if(expected, [](char letter) { return letter == '[' || letter == ']'; });
    EXPECT_EQ(all, expected) << row.id;
    EXPECT_EQ(all.id(), row.id);
    const bool has_optional = row.english.find('[') != std::string_view::npos;
    EXPECT_EQ(least.size() < all.size(), has_optional) << row.id;
    messages::each_argument(row.english, [&](std::string_view name, bool is_optional) {
      EXPECT_EQ(json::parse(all.arguments()).contains(name), true) << row.id;
      EXPECT_EQ(json::parse(least.arguments()).contains(name), !is_optional) << row.id;
    });
  }
}

TEST(MessageTable, AnIdIsThereOnceAndItsPatternIsWhole) {
  std::set<std::string_view> ids;
  for (const MessageRow& row : kMessageTable) {
    EXPECT_TRUE(ids.insert(row.id).second) << row.id;
    EXPECT_EQ(row.id.find_first_not_of("abcdefghijklmnopqrstuvwxyz._"), std::string_view::npos) << row.id;
    int braces = 0, brackets = 0;
    for (const char letter : row.english) {
      braces += letter == '{' ? 1 : letter == '}' ? -1 : 0;
      brackets += letter == '[' ? 1 : letter == ']' ? -1 : 0;
      EXPECT_TRUE(braces == 0 || braces == 1) << row.id;
      EXPECT_TRUE(brackets == 0 || brackets == 1) << row.id;
    }
    EXPECT_EQ(braces, 0) << row.id;
    EXPECT_EQ(brackets, 0) << row.id;
  }
}

TEST(Message, ArgumentsAreNumbersWhereTheTextHasSizesAndDurations) {
  const Message waited = say<"request.waited">(
      "workload"_is("nlp/train"), "waited_wait_seconds"_is(std::chrono::nanoseconds(2'500'000'000)),
      "requested_bytes"_is(2_GiB), "used_bytes"_is(5_GiB), "limit_bytes"_is(6_GiB));
  EXPECT_EQ(waited, "nlp/train waited about 2.5s for 2.00 GiB and got it: it held 5.00 GiB of its limit 6.00 GiB");
  EXPECT_EQ(json::parse(waited.arguments()), json({{"workload", "nlp/train"},
                                                   {"waited_wait_seconds", 2.5},
                                                   {"requested_bytes", 2147483648},
                                                   {"used_bytes", 5368709120},
                                                   {"limit_bytes", 6442450944}}));
  EXPECT_EQ(json::parse(waited.json()).at("message_id"), "request.waited");
}

TEST(Message, AMessageWithinOneKeepsItsId) {
  const std::vector<Message> changes{say<"limit.change">("before_bytes"_is(1_GiB), "after_bytes"_is(2_GiB)),
                                     "said elsewhere"};
  const Message changed = say<"limit.changed">("workload"_is("nlp/train"), "changes"_is(changes), "by"_is("ops"));
  EXPECT_EQ(changed, "nlp/train: limit 1.00 GiB → 2.00 GiB, said elsewhere, by ops");
  const json inner = json::parse(changed.arguments()).at("changes");
  EXPECT_EQ(inner.at(0).at("message_id"), "limit.change");
  EXPECT_EQ(inner.at(0).at("text"), "limit 1.00 GiB → 2.00 GiB");
  EXPECT_EQ(inner.at(0).at("arguments").at("after_bytes"), 2147483648);
  EXPECT_EQ(inner.at(1), "said elsewhere");
}

// Names and command lines are anybody's.
TEST(Message, AnyTextAtAllIsJson) {
  const std::string strange = "a\"b\\c\n\x01\xff{x}[y]";
  const Message message = say<"limit.under_again">("workload"_is(strange));
  EXPECT_EQ(message, strange + " is under its limit again");
  EXPECT_EQ(json::parse(message.arguments()).at("workload"), "a\"b\\c\n\x01\xef\xbf\xbd{x}[y]");
}

TEST(Message, ATextAloneHasNoId) {
  EXPECT_EQ(Message("said elsewhere").json(), "");
  EXPECT_EQ(Message("said elsewhere").id(), "");
}

TEST(Message, WhatADocumentSaysIsReadBackAsItWasEntered) {
  const Message reason = say<"lease.too_large">("gpu"_is(1), "whole_bytes"_is(4_GiB));
  json row;
  put_message(row, "reason", reason);
  put_message(row, "text", fixed<"lease.its_turn">());
  put_message(row, "note", "said elsewhere");
  EXPECT_EQ(row, json({{"reason", "more than GPU 1 can provide: 4.00 GiB"},
                       {"reason_message",
                        {{"message_id", "lease.too_large"}, {"arguments", {{"gpu", 1}, {"whole_bytes", 4294967296}}}}},
                       {"text", "its turn"},
                       {"message_id", "lease.its_turn"},
                       {"arguments", json::object()},
                       {"note", "said elsewhere"}}));
  for (const char* field : {"reason", "text", "note"}) EXPECT_EQ(message_in(row, field), row[field]);
  EXPECT_EQ(message_in(row, "reason").json(), reason.json());
  EXPECT_EQ(message_in(row, "text").id(), "lease.its_turn");
  EXPECT_EQ(message_in(row, "note").id(), "");
  EXPECT_EQ(message_in(row, "nothing"), "");
  // Of a later ration.
  row["reason_message"]["message_id"] = "lease.too_small";
  EXPECT_EQ(message_in(row, "reason"), "more than GPU 1 can provide: 4.00 GiB");
  EXPECT_EQ(message_in(row, "reason").id(), "");
}

TEST(Message, AnErrorKeepsItsMessage) {
  const tl::unexpected<Error> failed = fail("E1547", say<"suspension.no_device">("workload"_is("train")), "ration ps");
  EXPECT_EQ(failed.value().what, "train uses no device yet.");
  EXPECT_EQ(failed.value().what.id(), "suspension.no_device");
}

// What say() refuses to compile is decided by these.
static_assert(messages::find_row("limit.under_again") < std::size(kMessageTable));
static_assert(messages::find_row("limit.over_again") == std::size(kMessageTable));
static_assert(messages::has_argument("{a} has {b_bytes}[ of {c}]", "b_bytes"));
static_assert(!messages::has_argument("{a} has {b_bytes}[ of {c}]", "b"));
static_assert(messages::all_given("{a}[ of {c}]", std::array<std::string_view, 1>{"a"}));
static_assert(!messages::all_given("{a} of {c}", std::array<std::string_view, 1>{"a"}));

}  // namespace
}  // namespace ration
