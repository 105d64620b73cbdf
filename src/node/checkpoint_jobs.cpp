#include "node/checkpoint_jobs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

extern char** environ;

namespace ration::node {
namespace {

using nlohmann::json;
using policy::CheckpointAction;
using policy::CheckpointOutcome;

Error lost(const std::string& how) {
  return {"E1545", fmt::format("the process that moves memory {}.", how), "ration doctor", 1};
}

}  // namespace

CheckpointProcesses::CheckpointProcesses(std::string program, std::string driver_folder, std::string lock_file)
    : program_(std::move(program)), driver_folder_(std::move(driver_folder)), lock_file_(std::move(lock_file)) {}

void CheckpointProcesses::start(const std::string& id, CheckpointAction action,
                                const std::vector<ProcessIdentity>& processes) {
  waiting_.push_back({id, action, processes});
  begin_next();
}

void CheckpointProcesses::begin_next() {
  if (running_ || waiting_.empty()) return;
  Job job = std::move(waiting_.front());
  waiting_.pop_front();
  std::vector<std::string> words{"ration", "checkpoint-processes",
                                 job.action == CheckpointAction::kSuspend ? "suspend" : "resume",
                                 "--driver=" + driver_folder_, "--lock=" + lock_file_};
  for (const ProcessIdentity& process : job.processes) words.push_back(to_word(process));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    failed_.push_back({job.id, job.action, tl::unexpected(lost(std::strerror(errno)))});
    return;
  }
  FileDescriptor reading{ends[0]}, writing{ends[1]};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  // A group of its own: what ends the daemon's group does not end it half way.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int problem = ::posix_spawn(&pid, program_.c_str(), &actions, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) {
    failed_.push_back({job.id, job.action, tl::unexpected(lost(std::strerror(problem)))});
    return;
  }
  running_.emplace(Running{std::move(job), pid, std::move(reading), {}});
}

std::vector<CheckpointJobs::Finished> CheckpointProcesses::take_finished() {
  std::vector<Finished> finished = std::exchange(failed_, {});
  if (running_) {
    constexpr std::size_t kLongestAnswer = 65536;
    char piece[4096];
    ssize_t count = 0;
    while (running_->text.size() < kLongestAnswer && (count = ::read(running_->answer.get(), piece, sizeof piece)) > 0)
      running_->text.append(piece, static_cast<std::size_t>(count));
    int status = 0;
    const pid_t ended = ::waitpid(running_->pid, &status, WNOHANG);
    if (ended == running_->pid) {
      while ((count = ::read(running_->answer.get(), piece, sizeof piece)) > 0)
        running_->text.append(piece, static_cast<std::size_t>(count));
      finished.push_back({running_->job.id, running_->job.action,
                          WIFEXITED(status)
                              ? outcome_of_line(running_->text)
                              : tl::unexpected(lost(fmt::format("was ended by signal {}", WTERMSIG(status))))});
      running_.reset();
    }
  }
  begin_next();
  return finished;
}

std::string to_word(const ProcessIdentity& process) {
  return fmt::format("{}:{}:{}", process.pid, process.start_time, process.pid_namespace);
}

std::optional<ProcessIdentity> process_of_word(const std::string& word) {
  ProcessIdentity process;
  const char* at = word.data();
  const char* const end = word.data() + word.size();
  const auto number = [&](auto& value) {
    const auto read = std::from_chars(at, end, value);
    at = read.ptr;
    return read.ec == std::errc{};
  };
  const auto colon = [&] { return at != end && *at++ == ':'; };
  if (!number(process.pid) || !colon() || !number(process.start_time) || !colon() || !number(process.pid_namespace) ||
      at != end)
    return std::nullopt;
  return process;
}

std::string to_line(const Result<CheckpointOutcome>& outcome) {
  const json line = outcome ? json{{"driver_threads", outcome->driver_threads}}
                            : json{{"error",
                                    {{"id", outcome.error().id},
                                     {"what", outcome.error().what},
                                     {"fix", outcome.error().fix},
                                     {"exit", outcome.error().exit_code}}}};
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<CheckpointOutcome> outcome_of_line(const std::string& line) {
  const json said = json::parse(line, nullptr, false);
  try {
    if (const auto error = said.find("error"); error != said.end())
      return tl::unexpected(Error{error->at("id"), error->at("what"), error->at("fix"), error->at("exit")});
    CheckpointOutcome outcome;
    said.at("driver_threads").get_to(outcome.driver_threads);
    return outcome;
  } catch (const json::exception&) {
    return tl::unexpected(lost("ended without an answer"));
  }
}

}  // namespace ration::node
