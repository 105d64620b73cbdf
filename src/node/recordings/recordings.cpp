#include "node/recordings/recordings.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "base/clock.hpp"
#include "trace/packed_file.hpp"

namespace ration::node {
namespace {

namespace fs = std::filesystem;

/// The most attempts to take a file. There are many, since a process that the program left behind may go on recording
/// for long.
constexpr int kMostTries = 360;
/// The most attempts that may find no file. There are few, since `ration run` makes the file shortly after the run's
/// end, and the user may have removed it.
constexpr int kMostEmptyTries = 8;
constexpr std::uint64_t kFirstPause = kSecond / 4, kLongestPause = 10 * kSecond;
constexpr std::ptrdiff_t kMostRunsOfUser = 256;
constexpr const char* kUnfinished = ".new";

/// The script that hands a file over. It runs with the rights of the file's user. Arguments: the file, and this
/// program. Writes the file to standard output. Exits with 3 if there is no file, and with 4 if the file is still being
/// made.
constexpr const char* kHandOver =
    "[ ! -d \"$1.parts\" ] || \"$2\" record -o \"$1\" >/dev/null 2>&1 || exit 4; [ -f \"$1\" ] || exit 3; "
    "before=$(stat -c %s -- \"$1\"); cat -- \"$1\" && [ \"$before\" = \"$(stat -c %s -- \"$1\")\" ] || exit 4";
/// The script that stores the copy. It runs with the daemon's rights. Arguments: the path of the copy, its maximum size
/// in bytes, and the command that writes its content. That command gets only a pipe, not the copy itself. Writes the
/// command's exit status to standard output.
constexpr const char* kKeep =
    "to=$1; most=$2; shift 2; umask 077; { { timeout 300 \"$@\" 4>&-; echo $? >&4; } | head -c \"$most\" >\"$to\"; } "
    "4>&1";

/// Returns the text with which the names of all files that the daemon took from the user end.
std::string ending_of(uid_t user) { return fmt::format(".uid-{}.rec", user); }

/// Returns a file name for the run.
std::string file_name(const Workload& workload) {
  std::string name = workload.book.name.substr(0, 100);
  std::replace(name.begin(), name.end(), '/', '_');
  if (name.starts_with('.')) name.front() = '_';
  return fmt::format("{}-{}-{}", name, workload.book.run_number, workload.book.created_ns / kSecond);
}

}  // namespace

Recordings::Recordings(std::string folder) : folder_(std::move(folder)) {
  std::error_code error;
  for (fs::directory_iterator each(folder_, error), end; !error && each != end; each.increment(error)) {
    const std::string name = each->path().filename().string();
    // Removes copies that an earlier daemon began and did not finish.
    if (name.ends_with(kUnfinished) && name.find(".uid-") != std::string::npos) ::unlink(each->path().c_str());
  }
}

bool Recordings::expect(const Workload& workload, const EventSubject& subject, const std::string& file) {
  struct stat book {};
  if (folder_.empty() || !file.starts_with('/') || ::stat(workload.path.c_str(), &book) != 0) return false;
  if (::geteuid() != 0 && workload.owner != ::geteuid()) return false;
  const auto is_of_user = [&](const auto& each) { return each.second.user == workload.owner; };
  if (std::count_if(runs_.begin(), runs_.end(), is_of_user) >= kMostRunsOfUser) return false;
  Run run;
  run.file = file;
  run.name = file_name(workload);
  run.subject = subject;
  run.user = workload.owner;
  run.group = book.st_gid;
  runs_.emplace(workload.path, std::move(run));
  return true;
}

void Recordings::forget(const std::string& path) {
  for (auto [at, end] = runs_.equal_range(path); at != end; ++at) at->second.has_ended = true;
}

bool Recordings::is_taking() const {
  return std::any_of(runs_.begin(), runs_.end(), [](const auto& each) {
    const Run& run = each.second;
    return run.child != nullptr || (run.has_ended && run.tries == 0);
  });
}

void Recordings::follow(std::uint64_t now_ns, const config::Amount& keep, Events& events) {
  if (folder_.empty()) return;
  std::error_code error;
  const fs::space_info space = fs::space(fs::path(folder_).parent_path(), error);
  const auto most = keep.on(Bytes{error ? 0 : space.capacity}, Bytes{error ? 0 : space.available});
  if (!most) return;
  std::set<uid_t> busy;
  for (const auto& [path, run] : runs_)
    if (run.child != nullptr) busy.insert(run.user);
  for (auto at = runs_.begin(); at != runs_.end();) {
    Run& run = at->second;
    const bool may_act = run.has_ended && (run.child != nullptr || !busy.contains(run.user));
    const bool goes_on = !may_act || follow_run(run, now_ns, *most, events);
    if (run.child != nullptr) busy.insert(run.user);
    at = goes_on ? std::next(at) : runs_.erase(at);
  }
}

bool Recordings::follow_run(Run& run, std::uint64_t now_ns, Bytes most, Events& events) {
  if (run.child != nullptr) {
    const auto ended = run.child->poll();
    if (!ended) return true;
    run.child.reset();
    if (run.is_kept || !look_at_copy(run, *ended, most, events)) return false;
  }
  if (now_ns < run.next_ns) return true;
  if (++run.tries > kMostTries || run.empty_tries > kMostEmptyTries) return false;
  run.next_ns = now_ns + std::min(kFirstPause << std::min(run.tries, 10), kLongestPause);
  start_child(run, most);
  return true;
}

bool Recordings::look_at_copy(Run& run, const Child::Ended& copied, Bytes most, Events& events) {
  const std::string fresh = unfinished(run);
  std::error_code error;
  const auto size = fs::file_size(fresh, error);
  const bool is_too_large = !error && size >= most.count();
  if (is_too_large || copied.output == "0\n") {
    if (!is_too_large && trace::is_packed(fresh) && keep(run)) {
      remove_oldest(run.user, most);
      run.is_kept = true;
      run.next_ns = 0;
      return true;
    }
    ::unlink(fresh.c_str());
    events.push_back(recording_left_event(run.subject, run.file, is_too_large ? std::optional(most) : std::nullopt));
    return false;
  }
  ::unlink(fresh.c_str());
  if (copied.output == "3\n") ++run.empty_tries;
  return true;
}

void Recordings::start_child(Run& run, Bytes most) {
  std::vector<std::string> words;
  if (!run.is_kept) {
    ::mkdir(folder_.c_str(), 0700);
    words = {"/bin/sh", "-c", kKeep, "sh", unfinished(run), std::to_string(most.count())};
  }
  if (::geteuid() == 0)
    words.insert(words.end(), {"setpriv", fmt::format("--reuid={}", run.user), fmt::format("--regid={}", run.group),
                               "--clear-groups", "--no-new-privs"});
  std::error_code error;
  if (run.is_kept)
    words.insert(words.end(), {"rm", "-f", "--", run.file});
  else
    words.insert(words.end(),
                 {"/bin/sh", "-c", kHandOver, "sh", run.file, fs::read_symlink("/proc/self/exe", error).string()});
  if (auto child = Child::start(std::move(words), "")) run.child = std::make_unique<Child>(std::move(*child));
}

std::string Recordings::unfinished(const Run& run) const {
  return folder_ + "/" + run.name + ending_of(run.user) + kUnfinished;
}

bool Recordings::keep(const Run& run) const {
  const std::string fresh = unfinished(run);
  if (::geteuid() == 0 && ::chown(fresh.c_str(), run.user, run.group) != 0) return false;
  constexpr int kMostOfOneName = 100;
  for (int number = 1; number <= kMostOfOneName; ++number) {
    const std::string name = number == 1 ? run.name : fmt::format("{}-{}", run.name, number);
    if (::link(fresh.c_str(), (folder_ + "/" + name + ending_of(run.user)).c_str()) != 0) {
      if (errno == EEXIST) continue;
      return false;
    }
    ::unlink(fresh.c_str());
    return true;
  }
  return false;
}

void Recordings::remove_oldest(uid_t user, Bytes most) const {
  struct Kept {
    fs::file_time_type written;
    std::string path;
    std::uint64_t bytes = 0;
  };
  std::error_code error;
  std::vector<Kept> all;
  std::uint64_t sum = 0;
  for (fs::directory_iterator each(folder_, error), end; !error && each != end; each.increment(error)) {
    const std::string path = each->path().string();
    struct stat status {};
    if (!path.ends_with(ending_of(user)) || ::lstat(path.c_str(), &status) != 0 || status.st_uid != user) continue;
    std::error_code gone;
    const Kept kept{each->last_write_time(gone), path, static_cast<std::uint64_t>(status.st_size)};
    if (gone) continue;
    sum += kept.bytes;
    all.push_back(kept);
  }
  std::sort(all.begin(), all.end(), [](const Kept& a, const Kept& b) { return a.written < b.written; });
  for (const Kept& oldest : all) {
    if (Bytes{sum} <= most) return;
    ::unlink(oldest.path.c_str());
    sum -= oldest.bytes;
  }
}

namespace {

class RecordingsRule final : public Rule {
 public:
  explicit RecordingsRule(Recordings& recordings) : recordings_(recordings) {}
  void run(const Moment& moment, Effects& effects) override {
    constexpr std::uint64_t kBetween = kSecond / 2;
    if (moment.now_ns < next_ns_) return;
    next_ns_ = moment.now_ns + kBetween;
    recordings_.follow(moment.now_ns, moment.configuration.recordings.keep.value, effects.events);
  }
  [[nodiscard]] bool is_unsettled() const override { return recordings_.is_taking(); }

 private:
  Recordings& recordings_;
  std::uint64_t next_ns_ = 0;
};

}  // namespace

std::unique_ptr<Rule> recordings_rule(Recordings& recordings) { return std::make_unique<RecordingsRule>(recordings); }

}  // namespace ration::node
