#include "node/queue/leases.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/say.hpp"
#include "node/queue/lease_json.hpp"

namespace ration::node {
namespace {

using namespace literals;
using nlohmann::json;

/// A device of 16 GiB.
Snapshot one_device(std::optional<Bytes> free = {}) {
  Snapshot now;
  now.devices.emplace_back();
  now.devices.front().device.total = 16_GiB;
  now.devices.front().device.free = free;
  return now;
}

/// What a suspended workload would hold.
AccountView suspended(const std::string& path, Bytes held) {
  AccountView away;
  away.path = path;
  away.gpu = 0;
  away.suspended = true;
  away.suspended_bytes = held;
  away.limit = 16_GiB;
  away.creator = *identity_of(::getpid());
  return away;
}

LeaseSubmission submission(Bytes bytes) {
  LeaseSubmission wanted;
  wanted.tenant = wanted.user = "nlp";
  wanted.bytes = bytes;
  wanted.waiter = *identity_of(::getpid());
  return wanted;
}

TEST(Leases, WaitsAreCountedFromAskingToTheGrant) {
  Snapshot now = one_device(16_GiB);
  Leases leases;
  leases.step(now, 1 * kSecond);
  const std::string first = *leases.submit(submission(10_GiB), 2 * kSecond);
  leases.step(now, 2 * kSecond);
  const std::string second = *leases.submit(submission(8_GiB), 5 * kSecond);
  leases.step(now, 6 * kSecond);
  EXPECT_EQ(leases.waits().count, 1U);
  EXPECT_EQ(leases.waits().seconds, 0);
  ASSERT_TRUE(leases.cancel(first, std::nullopt));
  leases.step(now, 35 * kSecond);
  EXPECT_EQ(leases.waits().count, 2U);
  EXPECT_EQ(leases.waits().seconds, 30);
  EXPECT_EQ(leases.waits().within[0], 1U);
  EXPECT_EQ(leases.waits().within[2], 2U);
}

TEST(Leases, AWaitThatWasGivenUpIsNotCounted) {
  Snapshot now = one_device(16_GiB);
  Leases leases;
  leases.step(now, 1 * kSecond);
  (void)*leases.submit(submission(10_GiB), 2 * kSecond);
  const std::string second = *leases.submit(submission(8_GiB), 2 * kSecond);
  leases.step(now, 3 * kSecond);
  ASSERT_TRUE(leases.cancel(second, std::nullopt));
  leases.step(now, 60 * kSecond);
  EXPECT_EQ(leases.waits().count, 1U);
}

TEST(Leases, ATenantWaitsForItsOwnLimitAndKeepsNobodyElseWaiting) {
  Snapshot now = one_device(16_GiB);
  const TenantShares limits{{{"nlp", 0}, {4_GiB, 0_GiB}}};
  Leases leases;
  leases.step(now, 1 * kSecond, limits);
  const std::string first = *leases.submit(submission(3_GiB), 2 * kSecond);
  const std::string second = *leases.submit(submission(2_GiB), 3 * kSecond);
  LeaseSubmission other = submission(12_GiB);
  other.tenant = "vision";
  const std::string third = *leases.submit(other, 4 * kSecond);
  leases.step(now, 5 * kSecond, limits);
  const auto state = [&](const std::string& id) { return leases.view(id)->state; };
  EXPECT_EQ(state(first), LeaseState::kGranted);
  EXPECT_EQ(state(second), LeaseState::kWaiting);
  EXPECT_EQ(leases.view(second)->reason, "its tenant has 1.00 GiB left of its limit 4.00 GiB on GPU 0");
  EXPECT_EQ(state(third), LeaseState::kGranted) << "it is in nobody's way";
  ASSERT_TRUE(leases.cancel(first, std::nullopt));
  ASSERT_TRUE(leases.cancel(third, std::nullopt));
  leases.step(now, 6 * kSecond, limits);
  EXPECT_EQ(state(second), LeaseState::kGranted);
}

TEST(Leases, WhatIsKeptForATenantIsGrantedToNobodyElse) {
  Snapshot now = one_device(16_GiB);
  const TenantShares shares{{{"nlp", 0}, {kUnlimited, 6_GiB}}};
  Leases leases;
  leases.step(now, 1 * kSecond, shares);
  LeaseSubmission other = submission(10_GiB);
  other.tenant = "vision";
  const std::string first = *leases.submit(other, 2 * kSecond);
  other.bytes = 1_GiB;
  const std::string second = *leases.submit(other, 3 * kSecond);
  const std::string own = *leases.submit(submission(6_GiB), 4 * kSecond);
  leases.step(now, 5 * kSecond, shares);
  const auto state = [&](const std::string& id) { return leases.view(id)->state; };
  EXPECT_EQ(state(first), LeaseState::kGranted) << "beside what is kept";
  EXPECT_EQ(state(second), LeaseState::kWaiting);
  EXPECT_EQ(state(own), LeaseState::kGranted) << "it is what was kept for it";
}

TEST(Leases, WhatLimitsAndGuaranteesNeverLeaveIsNotWaitedFor) {
  Snapshot now = one_device(16_GiB);
  now.devices.push_back(now.devices.front());
  now.devices.back().device.index = 1;
  const TenantShares shares{{{"nlp", 0}, {4_GiB, 0_GiB}},
                            {{"nlp", 1}, {8_GiB, 0_GiB}},
                            {{"research", 0}, {kUnlimited, 6_GiB}},
                            {{"ops", 0}, {kUnlimited, 2_GiB}},
                            {{"research", 1}, {kUnlimited, 3_GiB}}};
  Leases leases;
  leases.step(now, 1 * kSecond, shares);
  const auto asked = [&](const std::string& tenant, const std::string& gpu, Bytes bytes, bool scheduled = false) {
    LeaseSubmission wanted = submission(bytes);
    wanted.tenant = tenant;
    wanted.gpu = gpu;
    wanted.limit_is_scheduled = scheduled;
    const auto id = leases.submit(wanted, 2 * kSecond);
    return id ? "" : id.error().what + " " + id.error().fix;
  };
  EXPECT_EQ(asked("nlp", "auto", 8_GiB), "") << "GPU 1 admits it";
  EXPECT_EQ(asked("nlp", "auto", 9_GiB),
            "9.00 GiB will never be free for tenant nlp: this tenant may hold 8.00 GiB of GPU 1. "
            "Ask for 8GiB at most, or: ration set nlp --limit SIZE");
  EXPECT_EQ(asked("nlp", "0", 5_GiB),
            "5.00 GiB will never be free for tenant nlp: this tenant may hold 4.00 GiB of GPU 0. "
            "Ask for 4GiB at most, or: ration set nlp --limit SIZE");
  EXPECT_EQ(asked("nlp", "0", 5_GiB, true), "") << "it may rise in the night";
  EXPECT_EQ(asked("vision", "auto", 13_GiB), "");
  EXPECT_EQ(asked("vision", "0,1", 9_GiB),
            "9.00 GiB will never be free for tenant vision: 8.00 GiB of the 16.0 GiB of GPU 0 are guaranteed to ops, "
            "research. Ask for 8GiB at most, or: ration set ops --guarantee SIZE");
  EXPECT_EQ(asked("research", "0", 14_GiB), "") << "its own guarantee keeps nothing from it";
}

TEST(Leases, WhoIsOverDoesNotComeBack) {
  Snapshot now = one_device(2_GiB);
  now.devices.front().ungoverned = 14_GiB;
  AccountView away = suspended("/books/notebook.1.book", 4_GiB);  // whoever started it goes on
  away.limit = 4_GiB;
  now.accounts.push_back(away);
  Leases leases;
  leases.step(now, 1 * kSecond);
  leases.requeue(away.path, "it works again", now, 2 * kSecond);
  leases.step(now, 2 * kSecond);
  EXPECT_TRUE(leases.take_resumable().empty()) << "no room";
  now.accounts.clear();
  leases.step(now, 3 * kSecond);
  now.devices.front().device.free = 16_GiB;
  now.devices.front().ungoverned = Bytes{0};
  leases.step(now, 4 * kSecond);
  EXPECT_TRUE(leases.take_resumable().empty());
  const std::string next = *leases.submit(submission(16_GiB), 5 * kSecond);
  leases.step(now, 5 * kSecond);
  EXPECT_EQ(leases.view(next)->state, LeaseState::kGranted) << "nothing is kept for it";
}

TEST(Leases, WhoSurelyWorksComesBackBeforeWhoMay) {
  Snapshot now = one_device();
  now.devices.front().ungoverned = 16_GiB;
  for (const char* name : {"a", "b", "c"}) {
    now.accounts.push_back(suspended(name, 16_GiB));
    now.accounts.back().tenant = name;
  }
  Leases leases;
  leases.step(now, 1 * kSecond);
  leases.requeue("a", "it stirred", now, 2 * kSecond, false);
  leases.requeue("b", "it stirred", now, 3 * kSecond, false);
  leases.requeue("c", "it works", now, 4 * kSecond);
  leases.requeue("b", "it works", now, 5 * kSecond);
  leases.step(now, 5 * kSecond);
  std::vector<std::string> order;
  for (std::uint64_t second = 6; second < 9; ++second) {
    now.devices.front().ungoverned = Bytes{0};
    leases.step(now, second * kSecond);
    for (const std::string& path : leases.take_resumable()) order.push_back(path), leases.suspend(path);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"c", "b", "a"}));
}

TEST(Leases, WhoWaitsOnTheDeviceComesBeforeWhoComesToIt) {
  Snapshot now = one_device(8_GiB);
  AccountView waits;
  waits.path = "/books/train.1.book";
  waits.gpu = 0;
  waits.used = 8_GiB;
  waits.limit = 12_GiB;
  waits.waiting = true;
  waits.processes.emplace_back().driver_used = 8_GiB;
  now.accounts.push_back(waits);
  Leases leases;
  leases.step(now, 1 * kSecond);
  const std::string asks = *leases.submit(submission(6_GiB), 2 * kSecond);
  leases.step(now, 3 * kSecond);
  EXPECT_EQ(leases.view(asks)->state, LeaseState::kWaiting);
  now.accounts.front().waiting = false;
  leases.step(now, 4 * kSecond);
  EXPECT_EQ(leases.view(asks)->state, LeaseState::kGranted);
}

TEST(Leases, WhoAsksForMoreThanThereIsComesBackWhenAllIsFree) {
  Snapshot now = one_device();
  now.devices.front().keep_free = 1_GiB;
  const AccountView away = suspended("/books/notebook.1.book", 4_GiB);
  AccountView other = away;
  other.path = "/books/other.1.book";
  other.suspended = false;
  other.used = other.limit = 13_GiB;
  other.processes.emplace_back().driver_used = 13_GiB;
  now.accounts = {away, other};
  Leases leases;
  leases.step(now, 1 * kSecond);
  leases.requeue(away.path, "it works again", now, 2 * kSecond);
  leases.step(now, 2 * kSecond);
  EXPECT_TRUE(leases.take_resumable().empty()) << "it has a place in the queue";
  now.accounts.pop_back();
  leases.step(now, 3 * kSecond);
  EXPECT_EQ(leases.take_resumable(), std::vector<std::string>{away.path});
}

TEST(Leases, WhoAsksAgainUnderItsKeyHasOnePlace) {
  Snapshot now = one_device(16_GiB);
  Leases leases;
  leases.step(now, 1 * kSecond);
  LeaseSubmission keyed = submission(10_GiB);
  keyed.key = "first";
  const std::string first = *leases.submit(keyed, 2 * kSecond);
  EXPECT_EQ(*leases.submit(keyed, 3 * kSecond), first);
  leases.step(now, 4 * kSecond);
  EXPECT_EQ(*leases.submit(keyed, 5 * kSecond), first) << "granted meanwhile";
  LeaseSubmission stranger = keyed;
  stranger.waiter.start_time += 1;
  EXPECT_NE(*leases.submit(stranger, 6 * kSecond), first) << "another process with that word";
  EXPECT_NE(*leases.submit(submission(10_GiB), 7 * kSecond), *leases.submit(submission(10_GiB), 7 * kSecond))
      << "without a key";
  ASSERT_TRUE(leases.cancel(first, std::nullopt));
  EXPECT_NE(*leases.submit(keyed, 8 * kSecond), first);
}

LeaseSubmission called(const std::string& name, Bytes bytes) {
  LeaseSubmission wanted = submission(bytes);
  wanted.name = name;
  wanted.command = "python " + name + ".py";
  return wanted;
}

Program program(const std::string& name) { return {"nlp", "nlp", name, command_hash("python " + name + ".py")}; }

TEST(Leases, WhoIsKnownToBeGoneInTimePassesAndIsToldWhy) {
  Snapshot now = one_device(16_GiB);
  Leases leases;
  for (int i = 0; i < 5; ++i) leases.learn(program("long"), 600 * kSecond);
  leases.step(now, 1 * kSecond);
  const std::string runs = *leases.submit(called("long", 10_GiB), 2 * kSecond);
  leases.step(now, 2 * kSecond);
  const std::string head = *leases.submit(called("large", 16_GiB), 3 * kSecond);
  const std::string brief = *leases.submit(called("brief", 4_GiB), 4 * kSecond);
  leases.step(now, 5 * kSecond);
  const auto row = [&](const std::string& id) { return *leases.view(id); };
  EXPECT_EQ(row(brief).reason,
            "GPU 0 has 6.00 GiB left, but they are kept for " + head +
                ", which is ahead in the queue and may start in 9m 57s; how long this run takes is not "
                "known");
  for (int i = 0; i < 5; ++i) leases.learn(program("brief"), 60 * kSecond);
  const auto events = leases.step(now, 6 * kSecond);
  EXPECT_EQ(row(brief).state, LeaseState::kGranted) << "its runs ended while it waited";
  EXPECT_EQ(row(brief).reason, "ahead of " + head + ": this run ends before " + head + " can start");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].text, brief + " of nlp (brief) may start on GPU 0, ahead of " + head + ": this run ends before " +
                                head + " can start");
  EXPECT_EQ(row(head).state, LeaseState::kWaiting);
}

TEST(Leases, ALeaseIsShownWithWhatItWaitsForAndItsCommandToItsOwnerOnly) {
  Snapshot now = one_device(16_GiB);
  Leases leases;
  leases.step(now, 1 * kSecond);
  LeaseSubmission wanted = submission(10_GiB);
  wanted.owner = 1000;
  wanted.command = "train.py";
  const std::string first = *leases.submit(wanted, 2 * kSecond), second = *leases.submit(wanted, 3 * kSecond);
  leases.step(now, 4 * kSecond);
  leases.step(now, 5 * kSecond);  // which sees who was granted something
  const LeaseView granted = *leases.view(first), waits = *leases.view(second);
  EXPECT_EQ(granted.state, LeaseState::kGranted);
  EXPECT_EQ(granted.gpus, std::vector<int>{0});
  EXPECT_FALSE(granted.estimate);
  EXPECT_EQ(waits.state, LeaseState::kWaiting);
  EXPECT_EQ(waits.position, 1U);
  EXPECT_EQ(waits.of, 1U);
  ASSERT_TRUE(waits.taken_by && waits.taken_by->size() == 1);
  EXPECT_EQ(waits.taken_by->front().who, "nlp/" + first);
  EXPECT_EQ(waits.taken_by->front().taken, 10_GiB);
  const auto own = lease_json(waits, {false, 1000}), others = lease_json(waits, {false, 1001});
  EXPECT_EQ(own.at("command"), "train.py");
  EXPECT_EQ(own.at("state"), "waiting");
  EXPECT_EQ(own.at("taken_by").at(0).at("taken_bytes"), (10_GiB).count());
  EXPECT_TRUE(others.at("command").is_null());
  EXPECT_EQ(others.at("command_na"), "not yours");
  EXPECT_FALSE(lease_json(granted, {true, 0}).contains("position"));
  ASSERT_EQ(waiting_json(leases, {true, 0}).size(), 1U);
  EXPECT_FALSE(waiting_json(leases, {true, 0}).at(0).contains("taken_by"));
  EXPECT_FALSE(leases.view("q-77"));
  ASSERT_TRUE(leases.cancel(second, 1000, "ann"));
  ASSERT_NE(leases.cancelled(second), nullptr);
  EXPECT_EQ(leases.cancelled(second)->by, "ann");
  EXPECT_EQ(leases.cancelled(first), nullptr);
}

class Restarted : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/ration-leases-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    now_.devices.emplace_back();
    now_.devices.front().device.free = now_.devices.front().device.total = 16_GiB;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file() const { return folder_ + "/leases.json"; }
  static std::string state(const Leases& leases, const std::string& id) {
    const auto view = leases.view(id);
    return view ? lease_json(*view, {true, 0}).at("state").get<std::string>() : "none";
  }

  std::string folder_;
  Snapshot now_;
};

TEST_F(Restarted, WhoWaitedKeepsItsPlaceAndItsDeadline) {
  std::string granted, first, second, timed;
  {
    Leases leases(file());
    leases.step(now_, 1 * kSecond);
    granted = *leases.submit(submission(10_GiB), 2 * kSecond);
    leases.step(now_, 3 * kSecond);
    first = *leases.submit(submission(8_GiB), 4 * kSecond);
    second = *leases.submit(submission(9_GiB), 5 * kSecond);
    LeaseSubmission hurried = submission(16_GiB);
    hurried.wait_ns = 60 * kSecond;
    timed = *leases.submit(hurried, 6 * kSecond);
    LeaseSubmission dead = submission(1_GiB);
    ++dead.waiter.start_time;
    (void)*leases.submit(dead, 7 * kSecond);
  }
  Leases leases(file());
  EXPECT_EQ(state(leases, first), "none") << "what the devices have is not known yet";
  leases.step(now_, 10 * kSecond);
  EXPECT_EQ(state(leases, granted), "granted") << "it was before all others";
  EXPECT_EQ(leases.view(first)->position, 1);
  EXPECT_EQ(leases.view(second)->position, 2);
  EXPECT_EQ(leases.queue().waiting(), 3U) << "whose waiter is dead is gone";
  EXPECT_EQ(*leases.submit(submission(1_GiB), 11 * kSecond), "q-6") << "no number twice";
  leases.step(now_, 67 * kSecond);
  EXPECT_EQ(state(leases, timed), "over");
}

TEST_F(Restarted, WhoRunsKeepsItsLeaseSoThatWhoWaitsForItIsNotPassed) {
  AccountView runs;
  runs.path = "/books/long.1.book";
  runs.gpu = 0;
  runs.limit = runs.guarantee = runs.used = 10_GiB;
  runs.processes.emplace_back().driver_used = 10_GiB;
  std::string lease, head, small;
  {
    Leases leases(file());
    leases.step(now_, 1 * kSecond);
    lease = *leases.submit(submission(10_GiB), 2 * kSecond);
    leases.step(now_, 3 * kSecond);
    ASSERT_TRUE(leases.mark_running(lease, runs.path, 0));
    now_.accounts.push_back(runs);
    head = *leases.submit(submission(16_GiB), 4 * kSecond);
    small = *leases.submit(submission(4_GiB), 5 * kSecond);
    leases.step(now_, 6 * kSecond);
    EXPECT_EQ(state(leases, small), "waiting");
  }
  Leases leases(file());
  leases.step(now_, 10 * kSecond);
  EXPECT_EQ(state(leases, lease), "running");
  EXPECT_EQ(state(leases, small), "waiting") << "it would delay the head, which waits for a lease to end";
  leases.step(now_, 11 * kSecond);
  EXPECT_EQ(state(leases, small), "waiting");
  now_.accounts.clear();
  ASSERT_TRUE(leases.cancel(lease, std::nullopt));
  leases.step(now_, 12 * kSecond);
  EXPECT_EQ(state(leases, head), "granted");
}

TEST_F(Restarted, AReasonOfAnEarlierVersionIsShownAsItStands) {
  now_.devices.front().ungoverned = 16_GiB;
  now_.accounts.push_back(suspended("/books/notebook.1.book", 4_GiB));
  {
    Leases leases(file());
    leases.step(now_, 1 * kSecond);
    leases.requeue(now_.accounts.front().path, say<"resumption.works">(), now_, 2 * kSecond);
    leases.step(now_, 2 * kSecond);
  }
  json document = json::parse(std::ifstream(file()));
  json& row = document.at("returning").at("q-1");
  EXPECT_EQ(row.at("because_message").at("message_id"), "resumption.works");
  row.erase("because_message");
  row["because"] = "somebody wants it";
  std::ofstream(file()) << document;
  Leases leases(file());
  EXPECT_EQ(leases.damage(), "");
  leases.step(now_, 3 * kSecond);
  const LeaseView view = leases.view("q-1").value();
  EXPECT_EQ(view.reason.substr(0, 66), "the suspended workload needs its device again (somebody wants it):")
      << view.reason;
  EXPECT_EQ(json::parse(view.reason.arguments()).at("because"), "somebody wants it");
}

TEST_F(Restarted, ADamagedFileIsAsNone) {
  for (const char* content :
       {"", "{", "[]", "{\"waiting\":{\"q-1\":{}},\"last\":1}", "{\"waiting\":{},\"last\":\"x\"}",
        "{\"waiting\":{},\"running\":{\"q-1\":{\"granted_ns\":1,\"gpus\":[\"0\"]}},\"last\":1}"}) {
    std::ofstream(file()) << content;
    Leases leases(file());
    EXPECT_NE(leases.damage().find("It was kept as " + file() + ".damaged-"), std::string::npos) << leases.damage();
    EXPECT_TRUE(leases.step(now_, 1 * kSecond).empty()) << content;
    EXPECT_EQ(leases.queue().waiting(), 0U) << content;
    EXPECT_TRUE(leases.submit(submission(1_GiB), 2 * kSecond)) << content;
  }
}

}  // namespace
}  // namespace ration::node
