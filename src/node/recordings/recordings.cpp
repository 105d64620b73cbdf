#include "node/recordings/recordings.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/clock.hpp"
#include "trace/packed_file.hpp"

namespace ration::node {
namespace {

namespace fs = std::filesystem;

constexpr const char *kEnding = ".rec", *kUnfinished = ".new";
/// `ration run` makes the file shortly after the end; a process that the program left behind may record for long.
constexpr int kMostTries = 360;
constexpr std::uint64_t kFirstPause = kSecond / 4, kLongestPause = 10 * kSecond;

/// Run with the user's rights, whose file it is. Arguments: the file, this program, the most bytes.
constexpr const char* kHandOver =
    "[ ! -d \"$1.parts\" ] || \"$2\" record -o \"$1\" >/dev/null 2>&1; "
    "[ -f \"$1\" ] && timeout 300 head -c \"$3\" -- \"$1\" 2>/dev/null && rm -f -- \"$1\"";
/// Run with the daemon's rights. Arguments: where the file is kept, and a command that writes it.
constexpr const char* kKeep = "to=$1; shift; umask 077; exec \"$@\" >\"$to\"";

/// Returns the name of a run as that of a file.
std::string file_name(const Workload& workload) {
  std::string name = workload.book.name.substr(0, 100);
  std::replace(name.begin(), name.end(), '/', '_');
  if (name.starts_with('.')) name.front() = '_';
  return fmt::format("{}-{}-{}", name, workload.book.run_number, workload.book.created_ns / kSecond);
}

}  // namespace

bool Recordings::expect(const Workload& workload, const std::string& file) {
  struct stat book {};
  if (folder_.empty() || !file.starts_with('/') || ::stat(workload.path.c_str(), &book) != 0) return false;
  if (::geteuid() != 0 && workload.owner != ::geteuid()) return false;
  runs_.emplace(workload.path, Run{file, file_name(workload), workload.owner, book.st_gid, false, nullptr, 0, 0});
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

void Recordings::follow(std::uint64_t now_ns, const config::Amount& keep) {
  if (folder_.empty()) return;
  std::error_code error;
  const fs::space_info space = fs::space(fs::path(folder_).parent_path(), error);
  const auto most = keep.on(Bytes{error ? 0 : space.capacity}, Bytes{error ? 0 : space.available});
  if (!most) return;
  for (auto at = runs_.begin(); at != runs_.end();)
    at = !at->second.has_ended || follow_run(at->second, now_ns, *most) ? std::next(at) : runs_.erase(at);
  remove_oldest(*most);
}

bool Recordings::follow_run(Run& run, std::uint64_t now_ns, Bytes most) {
  const std::string kept = folder_ + "/" + run.name + kEnding, fresh = kept + kUnfinished;
  if (run.child != nullptr) {
    const auto ended = run.child->poll();
    if (!ended) return true;
    run.child.reset();
    std::error_code error;
    const bool is_whole = ended->status == 0 && fs::file_size(fresh, error) < most.count() && trace::is_packed(fresh);
    if (is_whole && ::rename(fresh.c_str(), kept.c_str()) == 0) return false;
    ::unlink(fresh.c_str());
    if (ended->status == 0) return false;  // it has been handed over, and is none, or more than is kept
  }
  if (now_ns < run.next_ns) return true;
  if (++run.tries > kMostTries) return false;
  run.next_ns = now_ns + std::min(kFirstPause << std::min(run.tries, 10), kLongestPause);
  ::mkdir(folder_.c_str(), 0700);
  std::error_code error;
  std::vector<std::string> words{"/bin/sh", "-c", kKeep, "sh", fresh};
  if (::geteuid() == 0)
    words.insert(words.end(), {"setpriv", fmt::format("--reuid={}", run.user), fmt::format("--regid={}", run.group),
                               "--clear-groups", "--no-new-privs"});
  words.insert(words.end(), {"/bin/sh", "-c", kHandOver, "sh", run.file,
                             fs::read_symlink("/proc/self/exe", error).string(), std::to_string(most.count())});
  if (auto child = Child::start(std::move(words), "")) run.child = std::make_unique<Child>(std::move(*child));
  return true;
}

void Recordings::remove_oldest(Bytes most) const {
  struct Kept {
    fs::file_time_type written;
    std::string path;
    std::uint64_t bytes = 0;
  };
  std::error_code error;
  std::vector<Kept> all;
  std::uint64_t sum = 0;
  for (fs::directory_iterator each(folder_, error), end; !error && each != end; each.increment(error)) {
    std::error_code gone;
    const Kept kept{each->last_write_time(gone), each->path().string(), each->file_size(gone)};
    if (gone || each->path().extension() != kEnding) continue;
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
  void run(const Moment& moment, [[maybe_unused]] Effects& effects) override {
    constexpr std::uint64_t kBetween = kSecond / 2;
    if (moment.now_ns < next_ns_) return;
    next_ns_ = moment.now_ns + kBetween;
    recordings_.follow(moment.now_ns, moment.configuration.recordings.keep.value);
  }
  [[nodiscard]] bool is_unsettled() const override { return recordings_.is_taking(); }

 private:
  Recordings& recordings_;
  std::uint64_t next_ns_ = 0;
};

}  // namespace

std::unique_ptr<Rule> recordings_rule(Recordings& recordings) { return std::make_unique<RecordingsRule>(recordings); }

}  // namespace ration::node
