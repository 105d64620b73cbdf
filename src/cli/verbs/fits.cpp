// `ration fits`: tells by its exit code whether a size fits on the GPUs now.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "admission/advised_limit.hpp"
#include "base/command.hpp"
#include "cli/session/node_client.hpp"
#include "cli/start/gpu_choice.hpp"
#include "cli/verbs/verbs.hpp"
#include "trace/open_recording.hpp"
#include "trace/whatif/answer.hpp"

namespace ration::cli {

namespace {

/// Returns the smallest limit that a recorded run needs, on the device where it needs most. Fails with E1812 if this
/// limit is not known.
Result<std::string> needed_by(const std::string& recording) {
  RATION_TRY(const auto opened, trace::open_recording(recording));
  RATION_TRY(const auto answers, trace::answer(*opened, {}));
  Bytes most;
  for (const trace::Answer& row : answers.rows) {
    if (row.is_bound)
      return fail("E1812",
                  fmt::format("{} does not show how much memory the run needs: {}.", recording, row.judgement.reason),
                  command({"whatif", recording}), 2);
    most = std::max(most, *row.smallest);
  }
  return exact_size(round_up(most, kGranule));
}

Result<std::string> size_of(const FitsOptions& options) {
  if (!options.recording.empty()) return needed_by(options.recording);
  if (options.size.empty()) return fail("E1001", "a size or --recording is needed.", "ration fits 4GiB", 2);
  return options.size;
}

/// Returns the command that asks for another size with the same options.
std::string with_size(const FitsOptions& options, Bytes size) {
  return command({"fits", options.gpu.empty() ? "" : "--gpu", options.gpu, options.tenant.empty() ? "" : "--tenant",
                  options.tenant, exact_size(size)});
}

Result<int> never_fits(const Session& session, const FitsOptions& options, Bytes wanted, const Room& largest,
                       bool together) {
  const std::string kept =
      largest.kept_free == Bytes{0} ? "" : fmt::format(", {} of it kept free", session.size(largest.kept_free));
  const std::string why = largest.tenant_limit == largest.largest()
                              ? fmt::format("the limit of tenant {} is {} on GPU {}", largest.tenant,
                                            session.size(largest.tenant_limit), largest.device.index)
                              : fmt::format("the {} is GPU {} with {}{}", together ? "smallest" : "largest",
                                            largest.device.index, session.size(largest.device.total), kept);
  return fail("E1104", fmt::format("{} never fits: {}.", session.size(wanted), why),
              with_size(options, round_down(largest.largest(), kGranule)) + "   is the largest that can fit", 4);
}

/// `together` are the GPUs of which each must have the room; empty if one GPU is enough.
Result<int> does_not_fit_now(const Session& session, const FitsOptions& options, const nlohmann::json& snapshot,
                             Bytes wanted, const Room& best, const std::vector<int>& together) {
  std::string why;
  if (best.left_of_limit < best.available)
    why = fmt::format("tenant {} has {} left of its limit of {} on GPU {}.", best.tenant,
                      session.size(best.left_of_limit), session.size(best.tenant_limit), best.device.index);
  else
    why = fmt::format("the {} is GPU {} with {} available of {}.", together.empty() ? "best" : "fullest",
                      best.device.index, session.size(best.available), session.size(best.device.total));
  if (best.device.free && best.available < *best.device.free)
    why += fmt::format(" {} are free, {} of them kept for guarantees, for slices or by keep_free.",
                       session.size(*best.device.free), session.size(*best.device.free - best.available));
  if (const std::string who = holders_on(session, snapshot, best.device.index); !who.empty())
    why += " Held by " + who + ".";
  const Bytes round = admission::round_size(best.now());
  const std::string wait =
      command({"run", snapshot.contains("queue") ? "--wait" : "--on-deny=wait", options.gpu.empty() ? "" : "--gpu",
               options.gpu, options.tenant.empty() ? "" : "--tenant", options.tenant, "--limit", exact_size(wanted),
               "--"}) +
      " …";
  return fail("E1302",
              fmt::format("{} does not fit now{}: {}", session.size(wanted),
                          together.empty() ? "" : fmt::format(" on each of GPU {}", fmt::join(together, ",")), why),
              (round == Bytes{0} ? "" : with_size(options, round) + "   would, or: ") + wait, 4);
}

}  // namespace

Result<int> fits(const Session& session, const FitsOptions& options) {
  RATION_TRY(const std::string size, size_of(options));
  RATION_TRY(const auto machine, session.machine());
  RATION_TRY(const auto chosen, choose_gpus(session, machine, options.gpu));
  RATION_TRY(const auto snapshot, node_snapshot(session, {.room_of = options.tenant}));
  const std::vector<Room> rooms = rooms_on(chosen.devices, snapshot);
  if (rooms.empty() || (!chosen.any_one && rooms.size() < chosen.devices.size()))
    return fail("E1532", "the daemon governs other GPUs.", "export RATION_SOCKET=<socket of the daemon of these GPUs>",
                4);
  const Room& best = deciding(rooms, chosen.any_one);
  std::vector<int> gpus;
  for (const Room& room : rooms)
    if (!chosen.any_one || &room == &best) gpus.push_back(room.device.index);
  RATION_TRY(const auto wanted, parse_size(size, best.device.total, best.device.room()));
  if (wanted == Bytes{0}) return fail("E1105", "a size of 0 fits on every GPU.", "ration fits 4GiB", 2);
  const bool yes = wanted <= best.now();
  if (session.format() == Format::kJson) {
    session.print_json("fits", {{"fits", yes},
                                {"gpu", best.device.index},
                                {"gpus", gpus},
                                {"tenant", best.tenant},
                                {"wanted_bytes", wanted.count()},
                                {"available_bytes", best.now().count()}});
    return yes ? 0 : 4;
  }
  if (yes) {
    // A program reads only the numbers, as --gpu takes them.
    const std::string numbers = fmt::to_string(fmt::join(gpus, ","));
    if (::isatty(STDOUT_FILENO) == 0)
      fmt::print("{}\n", numbers);
    else
      fmt::print("{} fits on GPU {}: {} can be taken there now\n", session.size(wanted), numbers,
                 session.size(best.now()));
    return 0;
  }
  const bool together = rooms.size() > 1 && !chosen.any_one;
  const auto less = [](const Room& left, const Room& right) { return left.largest() < right.largest(); };
  // If one GPU is enough, the GPU with the largest possible limit bounds the size; if all are needed, the GPU with the
  // smallest.
  const Room& largest = chosen.any_one ? *std::max_element(rooms.begin(), rooms.end(), less)
                                       : *std::min_element(rooms.begin(), rooms.end(), less);
  if (wanted > largest.largest()) return never_fits(session, options, wanted, largest, together);
  return does_not_fit_now(session, options, snapshot, wanted, best, together ? gpus : std::vector<int>{});
}

}  // namespace ration::cli
