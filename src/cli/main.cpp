// The command line: reads what was typed, calls the verb, prints the error. No logic of its own.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/verbs.hpp"

using namespace ration;

int main(int argc, char** argv) {
  CLI::App app{"ration: give any program a GPU-memory limit that holds\n\n"
               "  ration run --limit 4GiB -- python train.py\n  ration ps\n  ration set NAME --limit 6GiB"};
  app.name("ration");
  app.require_subcommand(1);
  Result<int> outcome = 0;

  cli::RunOptions options;
  auto* run = app.add_subcommand("run", "run a program under a GPU memory limit");
  run->add_option("--limit", options.limit, "bytes it can never exceed: 4GiB, 512MiB, 50%, max-1GiB");
  run->add_option("--gpu", options.gpu, "index, UUID or auto")->capture_default_str();
  run->add_option("--name", options.name, "name of the workload");
  run->add_option("--tenant", options.tenant, "who is charged");
  run->add_option("--on-deny", options.on_deny, "fail | wait | wait:30s")->capture_default_str();
  run->add_option("--account", options.account, "device (contexts count) | heap (allocations only)")
      ->check(CLI::IsMember({"device", "heap"}));
  run->add_option("--summary", options.summary, "auto | always | never")->check(CLI::IsMember({"auto", "always", "never"}));
  auto* simulate = run->add_option("--sim", options.simulate, "use a simulated node: T4:16GiB*2,A100-40")->expected(0, 1);
  run->add_option("program", options.program, "the program and its arguments, after --");
  run->callback([&] {
    options.simulated = simulate->count() > 0;
    outcome = cli::run(options);
  });

  bool json = false;
  auto* ps = app.add_subcommand("ps", "who uses what, once");
  ps->add_flag("--json", json, "one JSON document, schema ration.ps/1");
  ps->callback([&] { outcome = cli::ps(json); });

  std::string name, limit, denial;
  bool yes = false;
  auto* set = app.add_subcommand("set", "change the limit of something running");
  set->add_option("name", name, "the workload")->required();
  set->add_option("--limit", limit, "its new limit")->required();
  set->add_flag("--yes", yes, "shrink below what is used without asking");
  set->callback([&] { outcome = cli::set(name, limit, yes); });

  auto* why = app.add_subcommand("why", "explain one denial");
  why->add_option("denial", denial, "its number: d-RUN-N")->required();
  why->callback([&] { outcome = cli::why(denial); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (outcome) return *outcome;
  fmt::print(stderr, "{} ration: {}\n      {}\n", outcome.error().id, outcome.error().what, outcome.error().fix);
  return outcome.error().exit_code;
}
