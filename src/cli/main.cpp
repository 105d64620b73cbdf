// Reads the words typed, performs the verb, and prints its error.
#include <fmt/format.h>

#include <cstdio>
#include <system_error>

#include "cli/command_line.hpp"
#include "cli/session/standard_streams.hpp"
#include "cli/start/launch.hpp"
#include "cli/text/reference.hpp"
#include "config/variables.hpp"

extern char** environ;

namespace {

using namespace ration;

Result<int> execute(cli::CommandLine& line) {
  const std::string& verb = line.words.verb;
  try {
    if (line.words.all.empty()) {
      fmt::print("{}", cli::overview());
      return 0;
    }
    // The doctor reports a misspelt variable as one of its findings; other verbs fail because of it.
    const auto good = verb == "doctor" || verb == "help" ? Result<void>() : config::check_variables(environ);
    return good ? line.execute() : tl::unexpected(good.error());
  } catch (const std::system_error& error) {  // thrown by fmt where a stream cannot be written
    cli::end_if_nobody_reads(error.code().value());
    return fail("E1002", fmt::format("the output cannot be written: {}.", error.code().message()),
                "Check the files to which standard output and standard error are redirected: df -h .", 125);
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::reserve_standard_streams();
  cli::choose_character_set();
  cli::leave_guard(argv);
  config::make_paths_absolute();
  cli::CommandLine line(cli::split_arguments(argc, argv));
  const std::string& verb = line.words.verb;
  Result<int> outcome = execute(line);
  if (auto written = cli::finish_output(); !written && outcome && *outcome == 0)
    outcome = tl::unexpected(written.error());
  if (outcome) return *outcome;
  Error error = outcome.error();
  if (error.exit_code == 125 && verb != "run")
    error.exit_code = 1;  // only `run` needs 125, which tells ration's failure from the program's
  cli::tell([&] {
    line.session.print_error(verb, error);
    (void)std::fflush(stdout);
  });
  return error.exit_code;
}
