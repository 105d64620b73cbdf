// Reads what was typed, has the verb do it, and prints the error.
#include <fmt/format.h>

#include "cli/command_line.hpp"
#include "cli/launch.hpp"
#include "cli/reference.hpp"
#include "config/variables.hpp"

extern char** environ;

int main(int argc, char** argv) {
  using namespace ration;
  cli::leave_guard(argv);
  cli::CommandLine line(cli::words_typed(argc, argv));
  const std::string& verb = line.words.verb;
  if (line.words.all.empty()) {
    fmt::print("{}", cli::overview());
    return 0;
  }
  // The doctor reports a misspelt variable as one of its findings; everything else stops at it.
  const auto good = verb == "doctor" || verb == "help" ? Result<void>() : config::check_variables(environ);
  const Result<int> outcome = good ? line.execute() : tl::unexpected(good.error());
  if (outcome) return *outcome;
  Error error = outcome.error();
  if (error.exit_code == 125 && verb != "run")
    error.exit_code = 1;  // there it tells ration's failure from the program's
  line.session.print_error(verb, error);
  return error.exit_code;
}
