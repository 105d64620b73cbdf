// `ration run --scope`: performs the run in a transient scope of systemd. In the scope's control group, the driver can
// hold the limit, and systemd counts what the run uses.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/start/launch.hpp"
#include "cli/text/arguments.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {

Result<int> run_in_scope(const Arguments& typed) {
  std::vector<std::string> words{"systemd-run", "--scope", "--collect", "--quiet"};
  if (::getuid() != 0) words.emplace_back("--user");
  words.push_back(fmt::format("--unit=ration-{}", ::getpid()));
  words.insert(words.end(), {"--", companion("ration")});
  for (const std::string& word : typed.all)
    if (word != "--scope") words.push_back(word);
  const bool of_user = ::getuid() != 0;
  if (!has_systemd(of_user)) {
    std::vector<std::string> trial{"systemd-run", "--scope", "--collect", "--quiet"};
    if (of_user) trial.emplace_back("--user");
    trial.insert(trial.end(), {"--", "true"});
    if (output_of(trial).exit_code != 0)
      return fail("E1709",
                  fmt::format("--scope needs this {}'s systemd, which does not run.", of_user ? "user" : "machine"),
                  "Leave --scope out: the limit holds without it.", 125);
  }
  words.emplace_back("--");
  words.insert(words.end(), typed.program.begin(), typed.program.end());
  execute(words);
  return fail("E1709", fmt::format("systemd-run cannot be started: {}.", std::strerror(errno)),
              "Leave --scope out: the limit holds without it.", 125);
}

}  // namespace ration::cli
