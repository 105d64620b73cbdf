#include "admission/denials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/command.hpp"
#include "base/say.hpp"
#include "base/units.hpp"
#include "book/layout.hpp"
#include "machine/devices.hpp"
#include "machine/user_names.hpp"

namespace ration::admission {
namespace {

using book::Denial;
using book::DenialReason;

/// Returns the device in the form that --gpu takes: `1`, or `GPU-5fd4c2a1` if this machine does not show the device.
std::string device_text(const book::DeviceUuid& device, const DeviceIndex& index_of) {
  if (const auto index = index_of(device)) return fmt::format("{}", *index);
  return machine::uuid_text(device).substr(0, std::string_view("GPU-5fd4c2a1").size());
}

Message because(const Denial& denial, const book::BookSnapshot& book, const DeviceIndex& index_of) {
  switch (denial.reason) {
    case DenialReason::kLimit:
      return say<"denial.limit">("workload"_is(book.name), "used_bytes"_is(denial.used), "limit_bytes"_is(denial.limit),
                                 "requested_bytes"_is(denial.requested));
    case DenialReason::kHostLimit:
      return say<"denial.host_limit">("workload"_is(book.name), "used_bytes"_is(denial.used),
                                      "limit_bytes"_is(denial.limit), "requested_bytes"_is(denial.requested));
    case DenialReason::kDeviceFull:
      return denial.device_free == book::kUnknownBytes
                 ? say<"denial.device_full_untold">()
                 : say<"denial.device_full">("free_bytes"_is(Bytes{denial.device_free}),
                                             "requested_bytes"_is(denial.requested));
    case DenialReason::kNoAccount:
      return denial.device == book::DeviceUuid{}
                 ? say<"denial.not_granted_untold">("workload"_is(book.name))
                 : say<"denial.not_granted">("device"_is(device_text(denial.device, index_of)),
                                             "workload"_is(book.name));
    case DenialReason::kShare:
      return say<"denial.share">("share"_is(denial.function), "workload"_is(book.name), "used_bytes"_is(denial.used),
                                 "limit_bytes"_is(denial.limit), "requested_bytes"_is(denial.requested));
    case DenialReason::kTableFull:
      return say<"denial.table_full">("count"_is(denial.limit.count()), "function"_is(denial.function));
    default:
      return say<"denial.no_book">();
  }
}

/// Returns the program's command line, quoted for a shell. Returns a placeholder if the book has only its beginning.
std::string program_of(const book::BookSnapshot& book) {
  return book.command.size() + 1 >= sizeof(book::BookHeader::command) ? "PROGRAM" : quoted_words(book.command);
}

/// Returns the granted devices in the form that --gpu takes: `0,1`.
std::string granted_gpus(const book::BookSnapshot& book, const DeviceIndex& index_of) {
  std::vector<std::string> names;
  for (const auto& account : book.accounts) names.push_back(device_text(account.device, index_of));
  return fmt::to_string(fmt::join(names, ","));
}

/// Returns the name that the run was given; empty if it has that of its program, with or without a number.
std::string_view given_name(const book::BookSnapshot& book) {
  const std::string_view words = book.command, path = words.substr(0, words.find(' '));
  const std::string_view program = path.substr(path.rfind('/') + 1);
  const bool is_default = book.name == program || book.name.starts_with(std::string(program) + "-");
  return is_default ? std::string_view() : std::string_view(book.name);
}

/// Returns the command that repeats the run on `gpus` with `limit`, for the same tenant and, once it has
/// ended, under the same name. `more` are an option and its value; an empty word is left out.
std::string run_again(const book::BookSnapshot& book, bool running, const std::string& gpus, Bytes limit,
                      const std::array<std::string_view, 2>& more = {}) {
  const bool own =
      book.tenant.empty() || book.tenant == "default" || book.tenant == machine::user_name(book.creator.user);
  const std::string_view name = running ? std::string_view() : given_name(book);
  return command({"run", name.empty() ? "" : "--name", name, "--gpu", gpus, own ? "" : "--tenant",
                  own ? "" : book.tenant, "--limit", exact_size(limit), more[0], more[1], "--"}) +
         " " + program_of(book);
}

std::string grant_fix(const Denial& denial, const book::BookSnapshot& book, bool running, const DeviceIndex& index_of) {
  const bool known = denial.device != book::DeviceUuid{};
  const Bytes limit = book.accounts.empty() ? Bytes{0} : book.accounts.front().granted;
  return run_again(book, running,
                   known ? granted_gpus(book, index_of) + "," + device_text(denial.device, index_of) : "all", limit);
}

/// Advises a host limit under which the request would have fitted.
Fix host_fix(const Denial& denial, const book::BookSnapshot& book, bool running) {
  constexpr Bytes kStep{std::uint64_t{256} << 20};
  const std::string enough = exact_size(round_up(denial.used + denial.requested, kStep));
  if (running) return {command({"set", book.name, "--host-limit", enough}), Changes::kLimit};
  return {command({"run", "--host-limit", enough, "--"}) + " " + program_of(book)};
}

/// Advises a limit under which the request would have fitted.
Fix limit_advice(const Denial& denial, const book::BookSnapshot& book, bool running,
                 const std::optional<LimitRoom>& room, const DeviceIndex& index_of) {
  const Bytes needed = denial.used + denial.requested;
  const book::AccountSnapshot none{};
  const auto& account = denial.account < book.accounts.size() ? book.accounts[denial.account] : none;
  if (denial.limit == account.own_limit && needed <= account.granted)
    return {fmt::format("in the program: ration.limit('{}')   (the program limited itself to {})",
                        exact_size(advised_limit(needed, account.granted).value_or(needed)),
                        format_size(account.own_limit))};
  if (running && room) return limit_fix(book.name, needed, *room);
  const Bytes whole = denial.account < book.accounts.size() ? book.accounts[denial.account].device_total : kUnlimited;
  const auto limit = advised_limit(needed, whole);
  if (!limit) return {fmt::format("ration ps   (no device of that size: {} are needed)", format_size(needed))};
  if (running) {
    const std::string gpu = book.accounts.size() > 1 ? device_text(denial.device, index_of) : "";
    return {command({"set", book.name, gpu.empty() ? "" : "--gpu", gpu, "--limit", exact_size(*limit)}),
            Changes::kLimit};
  }
  if (needed <= account.granted) return {held_back_fix(device_text(denial.device, index_of), has_waited(denial, book))};
  // Where others' guarantees left less than the granted limit, a larger limit alone would not help.
  if (denial.limit < std::min(account.granted, account.own_limit) && !has_waited(denial, book))
    return {run_again(book, running, granted_gpus(book, index_of), *limit, {"--on-deny", "wait"})};
  return {run_again(book, running, granted_gpus(book, index_of), *limit)};
}

/// Returns the name of the share that denied the request. The record has room for 39 bytes, so a longer name is cut
/// there; then returns a placeholder.
std::string share_of(const Denial& denial) {
  constexpr std::size_t kRecorded = 39;
  const auto at = denial.function.find(" in ");
  if (at == std::string::npos || denial.function.size() >= kRecorded) return "NAME";
  return fmt::format("'{}'", denial.function.substr(at + 4));
}

/// Advises a size of the share under which the request would have fitted and, if the whole program may not have that
/// much, a limit for the program.
Fix share_fix(const Denial& denial, const book::BookSnapshot& book, bool running, const std::optional<LimitRoom>& room,
              const DeviceIndex& index_of) {
  const Bytes needed = denial.used + denial.requested;
  std::string share = fmt::format("in the program: ration.share({}, '{}')", share_of(denial), exact_size(needed));
  const bool fits = denial.account >= book.accounts.size() || needed <= book.accounts[denial.account].limit;
  if (fits) return {std::move(share)};
  Denial of_program = denial;
  of_program.limit = book.accounts[denial.account].limit;
  Fix fix = limit_advice(of_program, book, running, room, index_of);
  fix.text += "   (and " + share + ")";
  return fix;
}

Fix fix(const Denial& denial, const book::BookSnapshot& book, bool running, const std::optional<LimitRoom>& room,
        const DeviceIndex& index_of) {
  if (denial.reason == DenialReason::kDeviceFull)
    return {
        denial.waited_ns > 0
            ? "ration ps   (shows which workloads hold memory), then ask for less, wait longer, or use another --gpu"
            : "ration ps   (shows which workloads hold memory), then wait for one to end: --on-deny wait"};
  if (denial.reason == DenialReason::kHostLimit) return host_fix(denial, book, running);
  if (denial.reason == DenialReason::kTableFull)
    return {fmt::format("in the program: before it asks for more, free some of the memory of {}", denial.function)};
  if (denial.reason == DenialReason::kShare) return share_fix(denial, book, running, room, index_of);
  if (denial.reason == DenialReason::kNoAccount) return {grant_fix(denial, book, running, index_of)};
  if (denial.function == "cuMemAllocManaged" && book.managed == book::ManagedPolicy::kCharge)
    return {run_again(book, running, granted_gpus(book, index_of), denial.limit, {"--managed", "resident"}) +
            "   (what does not fit stays on the host)"};
  return limit_advice(denial, book, running, room, index_of);
}

}  // namespace

std::string held_back_fix(const std::string& gpu, bool has_waited) {
  return command({"explain", gpu.empty() ? "" : "--gpu", gpu}) + "   (who holds what, and for whom the rest is kept)" +
         (has_waited ? "; or ask for less, wait longer, or use another --gpu" : "; or wait: --on-deny wait");
}

bool has_waited(const Denial& denial, const book::BookSnapshot& book) {
  return book.on_deny == book::OnDeny::kWait && denial.waited_ns > 0;
}

std::vector<const char*> denial_names() {
  std::vector<const char*> names;
  for (const DenialReason reason : {DenialReason::kLimit, DenialReason::kDeviceFull, DenialReason::kNoAccount,
                                    DenialReason::kShare, DenialReason::kTableFull, DenialReason::kHostLimit})
    names.push_back(name_of(reason));
  return names;
}

const char* name_of(DenialReason reason) {
  switch (reason) {
    case DenialReason::kLimit:
      return "limit";
    case DenialReason::kDeviceFull:
      return "device_full";
    case DenialReason::kNoAccount:
      return "not_granted";
    case DenialReason::kShare:
      return "share";
    case DenialReason::kTableFull:
      return "table_full";
    case DenialReason::kHostLimit:
      return "host_limit";
    default:
      return "book";
  }
}

DenialExplained explain_denial(const Denial& denial, const book::BookSnapshot& book, bool running,
                               const std::optional<LimitRoom>& room, const DeviceIndex& index_of) {
  DenialExplained explained{fmt::format("d-{}-{}", book.run_number, denial.sequence),
                            because(denial, book, index_of),
                            {},
                            fix(denial, book, running, room, index_of)};
  if (denial.reason == DenialReason::kLimit && denial.device_free != book::kUnknownBytes &&
      denial.device_free >= denial.requested.count())
    explained.not_because = say<"denial.device_was_not_full">("free_bytes"_is(Bytes{denial.device_free}));
  return explained;
}

std::optional<DenialId> parse_denial_id(const std::string& text) {
  if (text.rfind("d-", 0) != 0) return std::nullopt;
  DenialId id;
  const char* end = text.data() + text.size();
  const auto run = std::from_chars(text.data() + 2, end, id.run);
  if (run.ec != std::errc{} || run.ptr == end || *run.ptr != '-') return std::nullopt;
  const auto number = std::from_chars(run.ptr + 1, end, id.number);
  if (number.ec != std::errc{} || number.ptr != end) return std::nullopt;
  return id;
}

bool is_number_of_something(const std::string& text) {
  const bool marked = text.rfind("e-", 0) == 0 || text.rfind("q-", 0) == 0;
  const std::string number = text.substr(marked ? 2 : 0);
  const bool digits = !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
  return digits || parse_denial_id(text);
}

}  // namespace ration::admission
