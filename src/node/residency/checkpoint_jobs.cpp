#include "node/residency/checkpoint_jobs.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/message_json.hpp"
#include "base/say.hpp"
#include "book/book.hpp"
#include "book/status_message.hpp"

namespace ration::node {
namespace {

using machine::CheckpointAction;
using machine::CheckpointOutcome;
using nlohmann::json;

Error job_failed(Message how) { return {"E1545", std::move(how), "ration doctor", 1}; }

}  // namespace

CheckpointProcesses::CheckpointProcesses(std::string program, std::string driver_folder, std::string lock_file)
    : program_(std::move(program)), driver_folder_(std::move(driver_folder)), lock_file_(std::move(lock_file)) {}

void CheckpointProcesses::start(const std::string& id, CheckpointAction action,
                                const std::vector<ProcessIdentity>& processes) {
  const auto first_that_leaves = std::find_if(waiting_.begin(), waiting_.end(),
                                              [](const Job& job) { return job.action == CheckpointAction::kSuspend; });
  waiting_.insert(action == CheckpointAction::kResume ? first_that_leaves : waiting_.end(), {id, action, processes});
  begin_next();
}

void CheckpointProcesses::begin_next() {
  if (running_ || waiting_.empty()) return;
  Job job = std::move(waiting_.front());
  waiting_.pop_front();
  std::vector<std::string> words{program_, "checkpoint-processes",
                                 job.action == CheckpointAction::kSuspend ? "suspend" : "resume"};
  if (!driver_folder_.empty()) words.push_back("--driver=" + driver_folder_);
  if (!lock_file_.empty()) words.push_back("--lock=" + lock_file_);
  words.push_back("--book=" + job.id);
  for (const ProcessIdentity& process : job.processes) words.push_back(to_word(process));
  auto child = Child::start(std::move(words), "");
  if (child)
    running_.emplace(Running{std::move(job), std::move(*child)});
  else
    failed_.push_back({job.id, job.action, tl::unexpected(child.error())});
}

std::vector<CheckpointJobs::Finished> CheckpointProcesses::take_finished() {
  std::vector<Finished> finished = std::exchange(failed_, {});
  if (const auto ended = running_ ? running_->child.poll() : std::nullopt) {
    finished.push_back(
        {running_->job.id, running_->job.action,
         WIFEXITED(ended->status)
             ? outcome_from_line(ended->output)
             : tl::unexpected(job_failed(say<"checkpoint.lost_by_signal">("signal"_is(WTERMSIG(ended->status)))))});
    running_.reset();
  }
  begin_next();
  return finished;
}

Result<CheckpointOutcome> move_memory(const std::string& driver_folder, CheckpointAction action,
                                      const std::vector<ProcessIdentity>& processes, const std::string& book,
                                      const std::string& runtime_folder) {
  return machine::checkpoint(driver_folder, action, processes, [&]() -> Result<void> {
    book::BookSnapshot now;
    if (book.empty()) return {};
    if (const auto status = book::Book::read(book.c_str(), now); status != book::BookStatus::kOk)
      return fail("E1547", say<"suspension.unreadable_book">("book"_is(book), "reason"_is(book::message_of(status))),
                  "ration doctor", 1);
    if (std::none_of(now.processes.begin(), now.processes.end(),
                     [](const auto& process) { return process.unmovable != 0; }))
      return {};
    const auto machine = machine::query_devices(driver_folder);
    if (!machine) return tl::unexpected(machine.error());
    return machine::may_be_moved(now, *machine, runtime_folder, true);  // the daemon has checked the trial
  });
}

std::string to_word(const ProcessIdentity& process) {
  return fmt::format("{}:{}:{}", process.pid, process.start_time, process.pid_namespace);
}

std::optional<ProcessIdentity> process_from_word(const std::string& word) {
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
  json line;
  if (outcome) {
    line["driver_threads"] = outcome->driver_threads;
  } else {
    json& error =
        line["error"] = {{"id", outcome.error().id}, {"fix", outcome.error().fix}, {"exit", outcome.error().exit_code}};
    put_message(error, "what", outcome.error().what);
  }
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<CheckpointOutcome> outcome_from_line(const std::string& line) {
  const json answer = json::parse(line, nullptr, false);
  try {
    if (const auto error = answer.find("error"); error != answer.end())
      return tl::unexpected(Error{error->at("id"), message_in(*error, "what"), error->at("fix"), error->at("exit")});
    CheckpointOutcome outcome;
    answer.at("driver_threads").get_to(outcome.driver_threads);
    return outcome;
  } catch (const json::exception&) {
    return tl::unexpected(job_failed(say<"checkpoint.lost">()));
  }
}

}  // namespace ration::node
