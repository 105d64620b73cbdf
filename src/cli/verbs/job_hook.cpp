// `ration job-hook prepare|start|enter|summary|stop JOB NAME=VALUE…`: puts jobs of Slurm under their limits. Ration's
// plugin of Slurm (share/ration/slurm/ration_spank.cpp) runs this verb as root when a job begins on a node, when a task
// of the job starts, and after the job has ended.
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>

#include "adapters/containers/container_files.hpp"
#include "adapters/slurm/grant.hpp"
#include "base/labels.hpp"
#include "base/printable.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/whole_file.hpp"
#include "book/book.hpp"
#include "book/container_books.hpp"
#include "book/workload_book.hpp"
#include "cli/start/container_edits.hpp"
#include "cli/start/workload_start.hpp"
#include "cli/verbs/verbs.hpp"
#include "machine/devices.hpp"
#include "machine/process_origin.hpp"
#include "machine/user_names.hpp"

namespace ration::cli {
namespace {

namespace fs = std::filesystem;
using Facts = std::map<std::string, std::string>;

constexpr const char* kHelp = "ration help slurm";

std::string fact(const Facts& facts, const char* name) {
  const auto found = facts.find(name);
  return found == facts.end() ? "" : found->second;
}

template <class Number>
std::optional<Number> number_in(const Facts& facts, const char* name) {
  return parse_number<Number>(fact(facts, name));
}

std::string workload_of(const std::string& job) { return "slurm-" + job; }

/// Returns the books of a job on this node, the newest last; a requeued job may have several.
std::vector<std::string> books_of(const book::Store& store, const std::string& job) {
  std::vector<std::pair<std::uint64_t, std::string>> books;
  const std::string beginning = workload_of(job) + ".";
  std::error_code error;
  for (fs::directory_iterator each(store.folder() + "/books", error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (!name.starts_with(beginning) || !name.ends_with(book::kBookEnding)) continue;
    std::uint64_t run = 0;
    std::from_chars(name.data() + beginning.size(), name.data() + name.size(), run);
    books.emplace_back(run, each->path().string());
  }
  std::sort(books.begin(), books.end());
  std::vector<std::string> paths;
  for (auto& [run, path] : books) paths.push_back(std::move(path));
  return paths;
}

/// Returns the book that a task of the job may use; absent after the job has left the node.
std::optional<std::string> live_book(const book::Store& store, const std::string& job) {
  for (const std::string& path : books_of(store, job)) {
    const auto granted = book::read_granted(path, ::getuid());
    if (granted && liveness(granted->creator) == Liveness::kAlive) return path;
  }
  return std::nullopt;
}

std::string kept_file(const book::Store& store, const std::string& job, const char* what) {
  return fmt::format("{}/slurm/{}.{}", store.folder(), job, what);
}
/// Returns the file with the reason why the job has no book. The job's tasks print the reason.
std::string reason_file(const book::Store& store, const std::string& job) { return kept_file(store, job, "failed"); }
/// Returns the file with the guarantee that the prolog received, for the job's book.
std::string guarantee_file(const book::Store& store, const std::string& job) {
  return kept_file(store, job, "guarantee");
}

bool keep(const book::Store& store, const std::string& file, const std::string& text) {
  ::mkdir((store.folder() + "/slurm").c_str(), 0700);
  return write_whole(file, text, 0600);
}

Result<RunOptions> wanted(const std::string& job, const Facts& facts, const adapters::slurm::Share& share,
                          std::uint32_t uid) {
  RunOptions options;
  options.engine = kSlurmEngine;
  options.program = {fact(facts, "job_name").empty() ? workload_of(job) : fact(facts, "job_name")};
  options.request.name = workload_of(job);
  options.request.limit = fmt::format("{}MiB", share.bytes.count() >> 20);
  options.request.gpu = std::to_string(share.gpu);
  if (const auto guarantee = number_in<std::uint64_t>(facts, "guarantee")) {
    if (*guarantee > share.bytes.count() >> 20)
      return fail("E1722",
                  fmt::format("job {} asks for a guarantee of {}, but its limit is {}.", job,
                              format_size(Bytes{*guarantee << 20}), format_size(share.bytes)),
                  "Make --gpu-mem-guarantee at most as large as --gpu-mem.", 2);
    options.request.guarantee = fmt::format("{}MiB", *guarantee);
  }
  std::vector<std::string> labels{label_of("engine", "slurm"), label_of(kSlurmJobLabel, job),
                                  label_of("user", machine::user_name(uid))};
  for (const char* key : {"partition", "account", "job_name", "array"})
    if (!fact(facts, key).empty()) labels.push_back(label_of(key, fact(facts, key)));
  options.request.labels = fitting_labels(std::move(labels));
  return options;
}

Result<int> start_book(const Session& session, const book::Store& store, const std::string& job, Facts facts,
                       const adapters::slurm::Share& share) {
  const auto pid = number_in<std::int32_t>(facts, "pid");
  const auto uid = number_in<std::uint32_t>(facts, "uid");
  auto first = pid ? identity_of(*pid) : std::nullopt;
  if (!first || !uid)
    return fail("E1721", fmt::format("the hook of job {} received no user or no process.", job), kHelp, 1);
  facts["guarantee"] = machine::content_of(guarantee_file(store, job));
  first->user = *uid;  // the daemon charges the job to this user
  RATION_TRY(auto options, wanted(job, facts, share, *uid));
  RATION_TRY(auto daemon, NodeClient::require(session));
  std::optional<NodeClient> governor(std::move(daemon));
  RATION_TRY(const auto started, start_workload(session, options, store, "", governor, first));
  return 0;
}

Result<int> start(const Session& session, const std::string& job, const Facts& facts) {
  RATION_TRY(const auto store, session.store());
  ::unlink(reason_file(store, job).c_str());
  const auto failed = [&](const Error& error) -> Result<int> {
    (void)keep(store, reason_file(store, job), fmt::format("{} [{}]", error.what, error.id));
    return tl::unexpected(error);
  };
  const auto shares = adapters::slurm::shares_in(fact(facts, "gres"));
  if (!shares) return failed(shares.error());
  if (shares->empty()) return 0;
  if (shares->size() > 1)
    return failed(Error{"E1720", fmt::format("job {} was granted shares of {} GPUs of this node.", job, shares->size()),
                        "--gpu-mem is a share of one GPU; submit one job for each GPU", 1});
  if (live_book(store, job)) return 0;
  // The tasks mount their book here, in mount namespaces of their own. Outside of them the folder stays empty.
  if (::mkdir(book::kContainerFolder, 0755) != 0 && errno != EEXIST)
    return failed(Error{"E1721", fmt::format("{} cannot be made: {}.", book::kContainerFolder, std::strerror(errno)),
                        fmt::format("mkdir {}", book::kContainerFolder), 1});
  const auto started = start_book(session, store, job, facts, shares->front());
  return started ? started : failed(started.error());
}

tl::unexpected<Error> not_entered(const std::string& job, const std::string& why) {
  return fail("E1721", fmt::format("job {} cannot be put under its limit on this node: {}.", job, why), kHelp, 1);
}

bool mount_at(const std::string& from, const std::string& to, bool writable) {
  constexpr unsigned long kFlags = MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV;
  return ::mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
         (writable || ::mount(nullptr, to.c_str(), nullptr, kFlags | MS_RDONLY, nullptr) == 0);
}

/// Mounts guard and book for one task, in the mount namespace that the plugin has made for it.
Result<int> enter(const Session& session, const std::string& job, const Facts& facts) {
  RATION_TRY(const auto store, session.store());
  const auto book = live_book(store, job);
  if (!book) {
    const std::string reason = machine::content_of(reason_file(store, job));
    const bool has_share = !fact(facts, "share").empty();
    if (!has_share && !fact(facts, "asked").empty() && reason.empty())
      return not_entered(job,
                         "the job asked for --gpu-mem, but Slurm granted no share to the job; this happens without "
                         "cli_filter.lua");
    if (!has_share && reason.empty()) return 0;
    return not_entered(job, reason.empty() ? "the job has no book on this node; this happens without "
                                             "PrologFlags=Alloc,Contain"
                                           : reason);
  }
  RATION_TRY(auto edits, container_edits(session, store));
  struct stat preload {};
  if (::stat(adapters::kPreloadFile, &preload) != 0 &&
      !write_whole(adapters::kPreloadFile, "", 0644))  // an empty file changes nothing
    return not_entered(job, fmt::format("{} is missing and cannot be made", adapters::kPreloadFile));
  for (adapters::cdi::Mount& mount : edits.mounts) {
    if (mount.from == mount.to) continue;
    std::string from = mount.from;
    if (mount.to == adapters::kPreloadFile) {
      // Keeps the libraries that the machine loads into every program.
      const std::string machines = machine::content_of(adapters::kPreloadFile);
      if (!machines.empty()) {
        from += "-of-jobs";
        const std::string whole = machine::content_of(mount.from) + machines;
        if (machine::content_of(from) != whole && !write_whole(from, whole, 0644))
          return not_entered(job, fmt::format("{} cannot be written", from));
      }
    }
    if (!mount_at(from, mount.to, mount.writable))
      return not_entered(job, fmt::format("{} on {}: {}", from, mount.to, std::strerror(errno)));
  }
  if (!mount_at(*book, book::kContainerBook, true))
    return not_entered(job, fmt::format("its book: {}", std::strerror(errno)));
  // Names the GPU by UUID: Slurm's numbers count only the GPUs that the job's control group lets the job open.
  if (const auto granted = book::read_granted(*book, ::getuid()); granted && !granted->accounts.empty())
    edits.variables["CUDA_VISIBLE_DEVICES"] = machine::uuid_text(granted->accounts.front().device);
  for (const auto& [name, value] : edits.variables) fmt::print("{}={}\n", name, value);
  return 0;
}

/// Prints `ration NODE: peak 3.61 GiB of 4.00 GiB, 2 denials`, or nothing if the job had no share here.
void print_summary(const book::Store& store, const std::string& job, const std::string& node) {
  const auto books = books_of(store, job);
  book::BookSnapshot book;
  if (books.empty() || book::Book::read(books.back().c_str(), book) != book::BookStatus::kOk) return;
  for (const book::AccountSnapshot& account : book.accounts)
    fmt::print("ration {}: peak {} of {}, {}\n", printable(node, '_'), format_size(account.peak),
               format_size(account.limit), counted(account.denials, "denial"));
}

}  // namespace

Result<int> job_hook(const Session& session, const JobHookOptions& options) {
  Facts facts;
  for (const std::string& word : options.facts)
    if (const auto parts = split_once(word, '='); parts) facts[std::string(parts->first)] = parts->second;
  const std::string& job = options.job;
  if (job.empty() || job.find_first_not_of("0123456789") != std::string::npos)
    return fail("E1721", fmt::format("'{}' is not the number of a job.", printable(job)), kHelp, 2);
  if (options.action == "start") return start(session, job, facts);
  if (options.action == "enter") return enter(session, job, facts);
  RATION_TRY(const auto store, session.store());
  if (options.action == "prepare") {
    (void)keep(store, guarantee_file(store, job), fact(facts, "guarantee"));
    return 0;
  }
  if (options.action == "summary") print_summary(store, job, fact(facts, "node"));
  if (options.action == "stop") {
    for (const std::string& book : books_of(store, job)) book::retire(book);
    ::unlink(reason_file(store, job).c_str());
    ::unlink(guarantee_file(store, job).c_str());
  }
  return 0;
}

}  // namespace ration::cli
