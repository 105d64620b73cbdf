#include "cli/start/tensorboard_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/process.hpp"
#include "machine/user_names.hpp"
#include "trace/export/event_records.hpp"

namespace ration::cli {
namespace {

using trace::Scalar;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

tl::unexpected<Error> no_file(const std::string& folder, const std::string& why) {
  return fail("E1405", fmt::format("no file for TensorBoard can be made in {}: {}.", folder, why),
              "--tensorboard /a/folder/of/yours", 125);
}

float gib(Bytes bytes) { return static_cast<float>(static_cast<double>(bytes.count()) / (1 << 30)); }

std::string group_of(int gpu) { return fmt::format("gpu_{}", gpu); }

/// Adds the values of one account. A limit that nobody set is left out.
void add(std::vector<Scalar>& scalars, const std::string& group, Bytes used, Bytes limit, Bytes peak,
         std::uint64_t denials) {
  scalars.push_back({group + "/used_gib", gib(used)});
  if (limit < kUnlimited) scalars.push_back({group + "/limit_gib", gib(limit)});
  scalars.push_back({group + "/peak_gib", gib(peak)});
  scalars.push_back({group + "/denials", static_cast<float>(denials)});
}

std::vector<Scalar> values_of(book::BookSnapshot& book, const std::vector<int>& gpus) {
  const std::uint64_t own_namespace = own_pid_namespace();
  std::erase_if(book.processes, [&](const book::ProcessSnapshot& process) {
    return liveness(process.identity, own_namespace) == Liveness::kDead;
  });
  const std::vector<Bytes> held = book::held_by_living(book);
  std::vector<Scalar> scalars;
  for (std::size_t i = 0; i < std::min(gpus.size(), book.accounts.size()); ++i) {
    const book::AccountSnapshot& account = book.accounts[i];
    const Bytes unrequested = book.processes.empty() ? Bytes{0} : account.unrequested;
    add(scalars, group_of(gpus[i]), held[i] + unrequested,
        std::min({account.limit, account.own_limit, account.device_total}), account.peak, account.denials);
  }
  if (book.host.counted && (book.host.peak > Bytes{0} || book.host.in_force() < kUnlimited))
    add(scalars, "pinned_host", book::host_held_by_living(book), book.host.in_force(), book.host.peak,
        book.host.denials);
  return scalars;
}

/// Returns the layout of the page on which a GPU's values share one chart.
std::string layout(const std::vector<int>& gpus) {
  std::vector<trace::Chart> charts;
  for (const int gpu : gpus) {
    const std::string group = group_of(gpu);
    charts.push_back(
        {fmt::format("GPU {}, GiB", gpu), {group + "/used_gib", group + "/limit_gib", group + "/peak_gib"}});
  }
  return trace::layout_record(wall_seconds(), "GPU memory", charts);
}

/// Returns the name of the run; no other start of a workload has the same name.
std::string run_of(const book::BookSnapshot& book) {
  const std::string number = fmt::format("-{}", book.run_number);
  return book.name.ends_with(number) ? book.name : book.name + number;
}

}  // namespace

Result<void> TensorboardLog::prepare(const std::string& folder) {
  if (folder.find("://") != std::string::npos) return no_file(folder, "it is not a folder on this machine");
  std::error_code error;
  const std::filesystem::path place = std::filesystem::path(folder) / "ration";
  std::filesystem::create_directories(place, error);
  if (error) return no_file(folder, error.message());
  if (::access(place.c_str(), W_OK | X_OK) != 0) return no_file(folder, std::strerror(errno));
  return {};
}

Result<std::unique_ptr<TensorboardLog>> TensorboardLog::open(const std::string& folder, const std::string& book,
                                                             std::vector<int> gpus) {
  std::unique_ptr<TensorboardLog> log(new TensorboardLog);
  log->gpus_ = std::move(gpus);
  book::BookSnapshot contents;
  if (book::BookReader::open(book.c_str(), log->reader_) != book::BookStatus::kOk ||
      log->reader_.read(contents) != book::BookStatus::kOk)
    return no_file(folder, fmt::format("the book {} cannot be read", book));
  const std::filesystem::path place = std::filesystem::path(folder) / "ration" / run_of(contents);
  std::error_code error;
  std::filesystem::create_directories(place, error);
  if (error) return no_file(folder, error.message());
  const auto seconds = static_cast<std::int64_t>(wall_seconds());
  log->path_ = place / fmt::format("events.out.tfevents.{:010}.{}.{}.0", seconds, machine::host_name(), ::getpid());
  log->file_ = FileDescriptor(::open(log->path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (!log->file_) return no_file(folder, std::strerror(errno));
  log->write(trace::version_record(wall_seconds()) + layout(log->gpus_));
  log->write_values(false);
  if (log->missing_ > 0) {
    log->discard();
    return no_file(folder, std::strerror(log->problem_));
  }
  return log;
}

TensorboardLog::~TensorboardLog() { (void)finish(); }

void TensorboardLog::start() {
  thread_ = std::thread([this] { watch(); });
}

std::string TensorboardLog::finish() {
  if (!thread_.joinable()) return {};
  {
    const std::lock_guard guard(mutex_);
    ended_ = true;
  }
  wake_.notify_one();
  thread_.join();
  if (missing_ == 0) return {};
  return fmt::format("{} of {} values for TensorBoard are missing in {}: {}", missing_, step_ + 1, path_,
                     std::strerror(problem_));
}

void TensorboardLog::discard() {
  std::error_code error;
  std::filesystem::remove(path_, error);
  std::filesystem::remove(std::filesystem::path(path_).parent_path(), error);  // fails if the folder has other files
}

void TensorboardLog::watch() {
  // Blocks SIGXFSZ, so that a write beyond the user's limit on the size of files fails and does not end this process.
  // Blocks all other signals for the threads that wait for them.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock lock(mutex_);
  while (!wake_.wait_until(lock, began_ + std::chrono::seconds(step_ + 1), [this] { return ended_; })) {
    lock.unlock();
    write_values(false);
    lock.lock();
  }
  write_values(true);
}

void TensorboardLog::write_values(bool last) {
  const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - began_);
  step_ = last ? std::max<std::int64_t>(step_ + 1, elapsed.count()) : elapsed.count();
  book::BookSnapshot book;
  if (reader_.read(book) != book::BookStatus::kOk) return;  // `ration run` reports a lost book at the end
  write(trace::scalars_record(wall_seconds(), step_, values_of(book, gpus_)));
}

void TensorboardLog::write(const std::string& record) {
  std::size_t written = 0;
  while (written < record.size()) {
    const ssize_t count = ::write(file_.get(), record.data() + written, record.size() - written);
    if (count < 0) {
      if (missing_++ == 0) problem_ = errno;
      // Removes the torn record: the next one may find room again, and a reader would stop at a torn record.
      (void)!::ftruncate(file_.get(), length_);
      return;
    }
    written += static_cast<std::size_t>(count);
  }
  length_ += static_cast<std::int64_t>(written);
}

}  // namespace ration::cli
