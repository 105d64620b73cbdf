// The command line: reads what was typed, calls the verb, prints the error. No logic of its own.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <functional>

#include "base/command.hpp"
#include "cli/launch.hpp"
#include "cli/reference.hpp"
#include "cli/stage.hpp"
#include "cli/verbs.hpp"
#include "cli/words.hpp"
#include "policy/plan.hpp"
#include "policy/text.hpp"
#include "policy/variables.hpp"

extern char** environ;

using namespace ration;

namespace {

cli::Session session;
/// What to do once everything typed has been understood.
std::function<Result<int>()> chosen;

/// Everything that the verbs read; filled by the parser.
struct Typed {
  cli::RunOptions run;
  std::string hints = "auto", gpu, target, tenant, user, schedule, denial, size, shell, folder;
  cli::SetOptions set;
  cli::SplitOptions split;
  cli::PlanOptions plan;
  cli::DoctorOptions doctor;
  cli::DemoOptions demo;
  cli::ConfigOptions config;
  cli::ServeOptions serve;
  cli::ServiceOptions service;
  cli::EventsOptions events;
  cli::PsOptions ps;
  cli::StopOptions stop;
  cli::TopOptions top;
  cli::ReportOptions report;
  cli::TrimOptions trim;
  cli::CheckpointOptions checkpoint;
  std::vector<std::string> topic;
  int index = 0;
  bool json = false, marked = false;
} typed;

/// Of a variable that is set to something.
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// What was typed, or what the environment says, of the node that the verb is about.
void choose_node(bool typed_here, unsigned takes) {
  if ((takes & cli::kSim) != 0) {
    if (session.simulated_node.empty()) session.simulated_node = environment("RATION_SIM");
    session.simulated = typed_here || !session.simulated_node.empty();
    if (session.simulated) session.context.simulated = session.simulated_node.empty() ? "T4" : session.simulated_node;
  }
  if ((takes & cli::kSocket) == 0) return;
  if (session.socket.empty()) session.socket = environment("RATION_SOCKET");
  session.context.socket = session.socket;
}

/// E1101 to E1103 for a size that no device could have: said before any device is asked.
Result<void> check_sizes(const CLI::App& verb) {
  for (const auto* option : verb.get_options()) {
    if (option->get_type_name() != "SIZE") continue;
    for (const std::string& text : option->results()) {
      const bool step = verb.get_name() == "set" && (text.front() == '+' || text.front() == '-');
      if (text == "none") continue;
      if (auto size = parse_size(std::string_view(text).substr(step ? 1 : 0), kUnlimited, kUnlimited); !size)
        if (size.error().id != "E1101" || !policy::takes_guarantee_away(text)) return tl::unexpected(size.error());
    }
  }
  return {};
}

/// E1001 for --dry-run with what changes nothing.
Result<void> check_dry_run(const CLI::App& verb) {
  const auto* action = verb.get_option_no_throw("action");
  const std::string what = action != nullptr && action->count() > 0 ? action->as<std::string>() : "";
  if (!session.dry_run || cli::changes_state(cli::verb_text(verb.get_name()), what)) return {};
  const std::string whole = verb.get_name() + (what.empty() ? "" : " " + what);
  return fail("E1001", fmt::format("{} changes nothing: --dry-run has no meaning.", whole), "ration " + whole, 2);
}

CLI::App* add_verb(CLI::App& app, const std::string& name, const std::function<Result<int>()>& action) {
  CLI::App* verb = app.add_subcommand(name, cli::verb_text(name).summary);
  verb->set_help_flag();
  for (const bool everything : {false, true}) {
    verb->add_flag_callback(
        everything ? "--help" : "-h",
        [verb, everything] {
          fmt::print("{}", cli::verb_help(*verb, everything));
          throw CLI::Success();
        },
        everything ? "examples and every option" : "usage and options");
  }
  verb->parse_complete_callback([action, verb] {
    if (typed.json) session.output = "json";
    const unsigned takes = cli::verb_text(verb->get_name()).node;
    choose_node((takes & cli::kSim) != 0 && verb->count("--sim") > 0, takes);
    chosen = [action, verb]() -> Result<int> {
      if (auto good = check_dry_run(*verb); !good) return tl::unexpected(good.error());
      if (auto good = check_sizes(*verb); !good) return tl::unexpected(good.error());
      if (cli::names_demo(session.simulated_node) && verb->get_name() != "serve")  // which makes a node, and joins none
        if (auto joined = cli::join_demo(session); !joined) return tl::unexpected(joined.error());
      return action();
    };
  });
  return verb;
}

void add_output(CLI::App* verb, bool csv, bool lines = false) {
  std::vector<std::string> forms{"text", "json"};
  if (csv) forms.emplace_back("csv");
  if (lines) forms.emplace_back("jsonl");
  verb->add_option("-o,--output", session.output,
                   lines ? "text, json, csv or jsonl (a row a line)"
                   : csv ? "text, json or csv"
                         : "text or json")
      ->check(CLI::IsMember(forms))
      ->type_name("FORMAT");
  verb->add_flag("--json", typed.json, "the same as -o json");
  verb->add_option("--units", session.units, "iec (GiB), si (GB) or bytes")
      ->check(CLI::IsMember({"iec", "si", "bytes"}))
      ->type_name("UNITS");
  verb->add_option("--color", session.colour, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
}

void add_sim(CLI::App* verb) {
  verb->add_option("--sim", session.simulated_node,
                   verb->get_name() == "serve"
                       ? "of a simulated node: T4, T4:16GiB*2,A100-40, or a TOML file"
                       : "use a simulated node: T4, T4:16GiB*2,A100-40, a TOML file, or demo, the one of ration demo")
      ->expected(0, 1)
      ->type_name("NODE");
}

/// The options that follow from the table of verbs.
void add_common_options(CLI::App& app) {
  for (const cli::VerbText& text : cli::verb_texts()) {
    CLI::App* verb = app.get_subcommand(text.name);
    if (*text.changes != '\0') verb->add_flag("--dry-run", session.dry_run, "show what would be done, and do nothing");
    if ((text.node & cli::kSim) != 0) add_sim(verb);
    if ((text.node & cli::kSocket) != 0)
      verb->add_option("--socket", session.socket, "the daemon's socket, where it is not the usual one")
          ->type_name("PATH");
  }
}

void add_sim_cuda(CLI::App* verb) {
  verb->add_option("--sim-cuda", typed.run.simulated_cuda,
                   "with --sim, the CUDA runtime to simulate: auto (the program's own version), 12, 13, none")
      ->type_name("VERSION");
}

void add_plan_options(CLI::App* verb) {
  auto& wish = typed.run.wish;
  verb->add_option("-l,--limit", wish.limit, "bytes it can never exceed: 4GiB, 512MiB, 50%, max-1GiB")
      ->type_name("SIZE");
  verb->add_option("--guarantee", wish.guarantee, "bytes kept for it: refused if they cannot be promised beside others")
      ->type_name("SIZE");
  verb->add_option("--gpu", wish.gpu, "index, UUID, auto, or several: 0,1 (the limit is then per GPU)")
      ->type_name("GPU");
  verb->add_option("--slice", wish.slice, "run inside a slice made by ration split")->type_name("SLICE");
  verb->add_option("-n,--name", wish.name, "name of the workload")->type_name("NAME");
  verb->add_option("--tenant", wish.tenant, "who is charged")->type_name("TENANT");
  verb->add_option("--label", wish.labels, "a note kept with the run; may be given again")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);  // the word after it may be the program
  verb->add_option("--on-deny", wish.on_deny, "fail | wait | wait:30s: what a denied allocation does")
      ->type_name("ANSWER");
  verb->add_option("--account", wish.account, "device: everything nvidia-smi counts | heap: allocations only")
      ->type_name("KIND");
  verb->add_flag("--growth", wish.growth, "TensorFlow and JAX start small and grow, whatever their variables say");
  verb->add_option("--framework-hints", typed.hints, "auto: frameworks start small unless told otherwise | off")
      ->check(CLI::IsMember({"auto", "off"}))
      ->type_name("auto|off");
  verb->add_flag("--require-enforced", typed.run.require_enforced,
                 "exit 6 if the limit would not hold for this program");
  verb->add_option("--summary", typed.run.summary, "auto | always | never | json:FILE")->type_name("KIND");
  add_sim_cuda(verb);
}

cli::RunOptions run_options(const CLI::App* verb) {
  typed.run.wish.framework_hints = typed.hints == "auto";
  if (typed.run.program.empty()) typed.run.program = verb->remaining();
  return typed.run;
}

Result<int> start(const CLI::App* verb) {
  typed.run.queue = verb->count("--wait") > 0;
  const auto before = verb->remaining();
  if (!before.empty() && before.front().size() > 1 && before.front().front() == '-') {
    std::vector<std::string> known;
    for (const auto* option : verb->get_options()) {
      for (const auto& name : option->get_lnames()) known.push_back("--" + name);
    }
    const std::string first = before.front();
    if (typed.marked)
      return fail(
          "E1402",
          fmt::format("run has no option '{}'.{}", first, policy::suggestion(first.substr(0, first.find('=')), known)),
          "ration run --help", 2);
    return fail("E1402",
                fmt::format("no '--' before the program: '{}' was read as an option of ration.{}", first,
                            policy::suggestion(first.substr(0, first.find('=')), known)),
                "Write: ration run --limit 4GiB -- prog --batch 64", 2);
  }
  if (typed.marked && !before.empty())
    return fail("E1402",
                fmt::format("'{}' before '--' is no option and no value of one; nothing was started.", before.front()),
                "Write: ration run --limit 4GiB --label 'note=two words' -- prog --batch 64", 2);
  return cli::run(session, run_options(verb));
}

/// What needs the daemon, or is it.
void add_daemon_verbs(CLI::App& app) {
  auto* serve = add_verb(app, "serve", [] { return cli::serve(session, typed.serve); });
  serve->add_option("--listen", typed.serve.listen, "address and port of HTTP; \"\": none")
      ->type_name("ADDRESS:PORT")
      ->each([](const std::string&) { typed.serve.listen_given = true; });
  serve->add_option("--state", typed.serve.state, "folder of its database")->type_name("FOLDER");

  auto* service = add_verb(app, "service", [] { return cli::service(session, typed.service); });
  service->add_option("action", typed.service.action, "install, uninstall, start, stop, restart, status or print")
      ->required()
      ->check(CLI::IsMember({"install", "uninstall", "start", "stop", "restart", "status", "print"}));
  service->add_flag("--user", typed.service.user, "of this user instead of the machine");
  service->add_flag("--now", typed.service.now, "with install: start it, now and at every boot");

  auto* events = add_verb(app, "events", [] { return cli::events(session, typed.events); });
  events->add_flag("-f,--follow", typed.events.follow, "go on as they happen");
  events->add_option("--since", typed.events.since, "after the event of this number, or of the last so long: 10m")
      ->type_name("NUMBER|TIME");
  events->add_option("-n,--lines", typed.events.lines, "so many of the newest")
      ->check(CLI::Range(0, 10000))
      ->type_name("N");
  events->add_option("--type", typed.events.types, "denied, resized and so on")->delimiter(',')->type_name("TYPE");
  events->add_option("--tenant", typed.events.tenants, "only of these tenants")->delimiter(',')->type_name("TENANT");
  events->add_option("--workload", typed.events.workloads, "only of these workloads")
      ->delimiter(',')
      ->type_name("NAME");
  add_output(events, false);

  auto* stop = add_verb(app, "stop", [] { return cli::stop(session, typed.stop); });
  stop->add_option("workload", typed.stop.name, "its name: ration ps")->required();
  stop->add_option("--grace", typed.stop.grace, "between SIGTERM and SIGKILL; 10s if left out")->type_name("TIME");
  stop->add_flag("-y,--yes", session.yes, "do not ask");
  add_output(stop, false);

  auto* trim = add_verb(app, "trim", [] { return cli::trim(session, typed.trim); });
  trim->add_option("workload", typed.trim.name, "its name: ration ps; left out: all that are idle");
  trim->add_option("--idle", typed.trim.idle, "all that took and gave back nothing for so long: 30m")
      ->type_name("TIME");
  add_output(trim, false);
  auto* suspend = add_verb(app, "suspend", [] { return cli::suspend(session, typed.target); });
  suspend->add_option("workload", typed.target, "its name: ration ps")->required();
  add_output(suspend, false);
  auto* resume = add_verb(app, "resume", [] { return cli::resume(session, typed.target); });
  resume->add_option("workload", typed.target, "its name: ration ps")->required();
  add_output(resume, false);

  auto* report = add_verb(app, "report", [&app] {
    typed.report.last = app.get_subcommand("report")->count("--last") > 0;
    return cli::report(session, typed.report);
  });
  report->add_option("action", typed.report.action, "close: seal a month")->check(CLI::IsMember({"close"}));
  report->add_option("period", typed.report.period, "the month to close: 2026-01");
  report->add_option("--last", typed.report.workload, "the newest run, of all or of one workload")
      ->expected(0, 1)
      ->type_name("WORKLOAD");
  report->add_option("--by", typed.report.by, "tenant, user, workload, label:KEY, gpu (or device) or day")
      ->type_name("WHAT");
  report->add_option("--window", typed.report.window, "24h, 7d, 2026-01, thismonth, lastmonth")->type_name("TIME");
  report->add_option("--basis", typed.report.basis, "used, limit, guarantee, max(used,guarantee) or peak")
      ->type_name("BASIS");
  report->add_option("--price", typed.report.price, "of one GiB for an hour, for everybody: 0.031")->type_name("PRICE");
  report->add_option("--share-idle", typed.report.share_idle, "who pays for what nobody held: none, even or weighted")
      ->check(CLI::IsMember({"none", "even", "weighted"}))
      ->type_name("HOW");
  report->add_option("-o,--output", session.output, "text, json, csv, md, html, focus (FOCUS 1.2) or opencost")
      ->check(CLI::IsMember({"text", "json", "csv", "md", "html", "focus", "opencost"}))
      ->type_name("FORMAT");

  auto* recommend = add_verb(app, "recommend", [] { return cli::recommend(session, typed.target); });
  recommend->add_option("workload", typed.target, "its name, or TENANT/NAME")->required();
  add_output(recommend, false);
}

void add_verbs(CLI::App& app) {
  static CLI::App *run = nullptr, *env = nullptr;
  run = add_verb(app, "run", [] { return start(run); });
  run->prefix_command();
  add_plan_options(run);
  auto* wait =
      run->add_option("--wait", typed.run.wait, "wait in the daemon's queue until the limit is free, at most so long")
          ->expected(0, 1)
          ->type_name("TIME");
  run->add_option("--priority", typed.run.priority, "with --wait: larger goes first")->type_name("N")->needs(wait);
  run->add_option("--retry", typed.run.retries, "so often again with more, if it fails right after a denial")
      ->check(CLI::Range(0, 100))
      ->type_name("N");
  run->add_option("--retry-limit", typed.run.retry_limit, "how much more each time: +25%, +2GiB")->type_name("STEP");
  run->add_option("--denied-exit", typed.run.denied_exit, "exit code if it fails right after a denial")
      ->check(CLI::Range(1, 255))
      ->type_name("CODE");
  run->add_flag("--print-env", typed.run.print_env, "print the variables that would be set, and do nothing");
  add_output(run, false);

  auto* ps = add_verb(app, "ps", [&app] {
    if (typed.ps.every.empty() && app.get_subcommand("ps")->count("--watch") > 0) typed.ps.every = "2s";
    return cli::ps(session, typed.ps);
  });
  ps->add_option("workload", typed.ps.name, "only this one: NAME, TENANT/NAME or USER/NAME");
  ps->add_option("--sort", typed.ps.sort, "-used,name: the largest first, then by name")->type_name("FIELDS");
  ps->add_option("-w,--watch", typed.ps.every, "again every two seconds, or every so often; ^C ends it")
      ->expected(0, 1)
      ->type_name("TIME");
  ps->add_option("--tenant", typed.ps.tenant, "only of this tenant")->type_name("TENANT");
  ps->add_option("--user", typed.ps.user, "only of this user")->type_name("USER");
  ps->add_option("--gpu", typed.ps.gpu, "only this GPU")->type_name("GPU");
  add_output(ps, true, true);

  auto* top = add_verb(app, "top", [] { return cli::top(session, typed.top); });
  top->add_flag("--once", typed.top.once, "one frame as text; also where there is no terminal");
  top->add_option("--filter", typed.top.filter,
                  "only these: 'used>4GiB & denied>0', tenant~=nlp, governed==no, idle>30m")
      ->type_name("FILTER");
  top->add_option("--sort", typed.top.sort, "-used,name: the largest first, then by name")->type_name("FIELDS");
  top->add_flag("--readonly", typed.top.read_only, "no key changes anything; so it is for whoever is no operator");
  top->add_flag("--ascii", typed.top.ascii, "for a terminal without UTF-8; else as LC_ALL and LANG say");
  add_output(top, false);

  auto* explain = add_verb(app, "explain", [] { return cli::explain(session, typed.target, typed.gpu, typed.tenant); });
  auto* part =
      explain->add_option("target", typed.target, "a pid, a workload (NAME, TENANT/NAME or USER/NAME) or a tenant");
  auto* device = explain->add_option("--gpu", typed.gpu, "a whole device")->type_name("GPU")->excludes(part);
  explain->add_option("--tenant", typed.tenant, "a whole tenant, also where a workload has its name")
      ->type_name("TENANT")
      ->excludes(part)
      ->excludes(device);
  add_output(explain, false);

  auto* why = add_verb(app, "why", [] { return cli::why(session, typed.denial); });
  why->add_option(
      "what", typed.denial,
      "the number of a denial, an event or a place in the queue, or a workload; left out: the newest denial");
  add_output(why, false);

  auto* split = add_verb(app, "split", [] { return cli::split(session, typed.split); });
  split->add_option("gpu", typed.split.gpu, "index or UUID");
  split->add_option("--into", typed.split.into, "so many equal slices")->type_name("N");
  split->add_option("--sizes", typed.split.sizes, "6GiB,6GiB,rest")->type_name("SIZES");
  split->add_option("--ratio", typed.split.ratio, "40:60")->type_name("RATIO");
  split->add_option("--names", typed.split.names, "a,b,c instead of 0.0,0.1,0.2")->type_name("NAMES");
  split->add_flag("--off", typed.split.off, "make it whole again");
  add_output(split, true);

  auto* plan = add_verb(app, "plan", [] { return cli::plan(session, typed.plan); });
  plan->add_option("--gpu", typed.plan.gpus, "hardware by name: A100-40:2, T4:15GiB*3; left out: this machine's")
      ->type_name("GPUS")
      ->expected(1)
      ->take_all();
  plan->add_option("--tenant", typed.plan.tenants, "NAME=GUARANTEE[:LIMIT][*COUNT]; may be given again")
      ->type_name("TENANT")
      ->expected(1)
      ->take_all()
      ->required();
  plan->add_flag("--spread", typed.plan.spread, "side by side, so that limits can be reached, instead of tight");
  add_output(plan, false);

  static CLI::Option* schedule = nullptr;
  auto* set = add_verb(app, "set", [] {
    return schedule->count() > 0 ? cli::schedule(session, typed.schedule) : cli::set(session, typed.set);
  });
  auto* whose = set->add_option("name", typed.set.name, "of a workload or a tenant: ration ps");
  set->add_option("-l,--limit", typed.set.limit, "its new limit; +1GiB or -1GiB: so much more or less")
      ->type_name("SIZE")
      ->needs(whose);
  set->add_option("--guarantee", typed.set.guarantee, "its new guarantee")->type_name("SIZE")->needs(whose);
  set->add_option("--gpu", typed.set.gpu, "only on this GPU")->type_name("GPU")->needs(whose);
  schedule = set->add_option("--schedule", typed.schedule,
                             "limits of tenants by the hour, kept by the daemon; NAME=off ends one; alone shows all")
                 ->expected(0, 1)
                 ->type_name("'NAME=[DAYS ]FROM-TO:TENANT=SIZE,…'")
                 ->excludes(whose);
  set->add_flag("-y,--yes", session.yes, "do not ask");
  add_output(set, false);

  auto* fits = add_verb(app, "fits", [] { return cli::fits(session, typed.size, typed.gpu); });
  fits->add_option("size", typed.size, "4GiB")->required()->type_name("SIZE");
  fits->add_option("--gpu", typed.gpu, "only this GPU")->type_name("GPU");
  add_output(fits, false);

  auto* doctor = add_verb(app, "doctor", [] { return cli::doctor(session, typed.doctor); });
  doctor->add_flag("--probe", typed.doctor.probe, "really try to exceed a limit in every way");
  doctor->add_flag("--strict", typed.doctor.strict, "warnings count as failures");
  doctor->add_option("--only", typed.doctor.only, "these checks, or groups of them")
      ->delimiter(',')
      ->type_name("CHECK");
  doctor->add_option("--skip", typed.doctor.skip, "all but these")->delimiter(',')->type_name("CHECK");
  add_output(doctor, true);

  env = add_verb(app, "env", [] { return cli::env(session, run_options(env)); });
  add_plan_options(env);
  add_output(env, false);

  auto* sim = add_verb(app, "sim", [] {
    session.simulated = true;
    return cli::simulation(session, typed.run);
  });
  sim->add_option("action", typed.target, "env")->required()->check(CLI::IsMember({"env"}));
  add_sim_cuda(sim);
  add_output(sim, false);

  auto* config = add_verb(app, "config", [] { return cli::config(session, typed.config); });
  config->add_option("action", typed.config.action, "init, print, validate, path or reload")
      ->required()
      ->check(CLI::IsMember({"init", "print", "validate", "path", "reload"}));
  config->add_option("file", typed.config.file, "the file to write or to look at");
  config->add_flag("--force", typed.config.force, "init: replace the file that is there");
  add_output(config, false);

  auto* demo = add_verb(app, "demo", [] { return cli::demo(session, typed.demo); });
  demo->add_option("--scenario", typed.demo.scenario,
                   "demo, jupyterhub, gan, serving, fragmentation, noisy-neighbour, or a TOML file")
      ->type_name("NAME");
  demo->add_option("--speed", typed.demo.speed, "how many times as fast")
      ->check(CLI::Range(0.1, 100.0))
      ->type_name("X");
  demo->add_option("--seed", typed.demo.seed, "of what the programs do at random")->type_name("N");
  demo->add_option("--for", typed.demo.length, "end after so long; else at Ctrl-C or, without a terminal, at the end")
      ->type_name("TIME");
  demo->add_flag("--keep", typed.demo.keep, "end at Ctrl-C alone, without a terminal too");

  auto* help = add_verb(app, "help", [&app] { return cli::help(app, typed.topic); });
  help->add_option("topic", typed.topic, "a verb, a topic, an error's number, or: schema VERB")->expected(0, 2);

  add_verb(app, "version", []() -> Result<int> {
    fmt::print("ration {}\n", RATION_VERSION);
    return 0;
  });

  auto* completion = add_verb(app, "completion", [&app] { return cli::completion(app, typed.shell); });
  completion->add_option("shell", typed.shell, "bash, zsh or fish")->required();

  add_daemon_verbs(app);
  add_common_options(app);

  // Not for people: used by the build (manual pages), by run and doctor (one context in a process of its own) and by
  // the daemon (memory of programs moved in a process of its own).
  auto* manual = app.add_subcommand("manual")->group("");
  manual->add_option("folder", typed.folder)->required();
  manual->parse_complete_callback([&app] { chosen = [&app] { return cli::manual(app, typed.folder); }; });
  auto* candidates = app.add_subcommand("candidates")->group("");
  candidates->add_option("kind", typed.target)->required();
  add_sim(candidates);
  candidates->add_option("--socket", session.socket);
  candidates->parse_complete_callback([candidates] {
    choose_node(candidates->count("--sim") > 0, cli::kSim | cli::kSocket);
    chosen = []() -> Result<int> {
      if (cli::names_demo(session.simulated_node))
        if (auto joined = cli::join_demo(session); !joined) return tl::unexpected(joined.error());
      return cli::candidates(session, typed.target);
    };
  });
  auto* measure = app.add_subcommand("measure-context")->group("");
  measure->add_option("index", typed.index)->required();
  add_sim(measure);
  measure->parse_complete_callback([measure] {
    session.simulated = measure->count("--sim") > 0;
    chosen = [] { return cli::measure_context(session, typed.index); };
  });
  auto* checkpoint = app.add_subcommand("checkpoint-processes")->group("");
  checkpoint->add_option("action", typed.checkpoint.action)->required()->check(CLI::IsMember({"suspend", "resume"}));
  checkpoint->add_option("--driver", typed.checkpoint.driver_folder);
  checkpoint->add_option("--lock", typed.checkpoint.lock);
  checkpoint->add_option("processes", typed.checkpoint.processes);
  checkpoint->parse_complete_callback([] { chosen = [] { return cli::checkpoint_processes(typed.checkpoint); }; });
}

Error usage_error(const CLI::App& app, const CLI::ParseError& error, const std::string& verb) {
  std::vector<std::string> names;
  for (const auto& text : cli::verb_texts()) names.emplace_back(text.name);
  const bool known = std::find(names.begin(), names.end(), verb) != names.end();
  if (!known) {
    const bool option = !verb.empty() && verb.front() == '-';
    return {"E1001", fmt::format("no {} '{}'.{}", option ? "option" : "command", verb, policy::suggestion(verb, names)),
            "ration help", 2};
  }
  std::string what = error.what();
  std::vector<std::string> options;
  for (const auto* option : app.get_subcommand(verb)->get_options()) {
    for (const auto& name : option->get_lnames()) options.push_back("--" + name);
  }
  if (const auto extra = app.get_subcommand(verb)->remaining(); !extra.empty()) {
    what = fmt::format("'{}' is not known here.{}", extra.front(),
                       policy::suggestion(extra.front().substr(0, extra.front().find('=')), options));
  }
  return {"E1001", what, fmt::format("ration {} --help", verb), 2};
}

}  // namespace

int main(int argc, char** argv) {
  cli::leave_guard(argv);
  CLI::App app;
  app.name("ration");
  app.set_help_flag();
  app.require_subcommand(1);
  app.add_flag_callback("-h,--help", [] {
    fmt::print("{}", cli::overview());
    throw CLI::Success();
  });
  app.add_flag_callback("--version", [] {
    fmt::print("ration {}\n", RATION_VERSION);
    throw CLI::Success();
  });
  add_verbs(app);
  cli::Words words = cli::words_typed(argc, argv);
  const std::string& verb = words.verb;
  if (words.all.empty()) {
    fmt::print("{}", cli::overview());
    return 0;
  }
  // The doctor reports a misspelt variable as one of its findings; everything else stops at it.
  if (verb != "doctor" && verb != "help") {
    if (const auto good = policy::check_variables(environ); !good) {
      session.print_error(verb, good.error());
      return good.error().exit_code;
    }
  }
  const auto refused = [&](const Result<void>& checked) {
    if (!checked) session.print_error(verb, checked.error());
    return !checked;
  };
  if (refused(cli::check_values(words, cli::surely_ours(words)))) return 2;
  typed.run.program = std::move(words.program);
  typed.marked = words.marked;
  std::vector<std::string> backwards(words.all.rbegin(), words.all.rend());  // as the parser wants them
  try {
    app.parse(backwards);
    const std::size_t program = verb == "run" ? app.get_subcommand("run")->remaining_size() : 0;
    if (refused(cli::check_values(words, words.all.size() - program))) return 2;
  } catch (const CLI::Success&) {
    return 0;
  } catch (const CLI::ParseError& error) {
    session.print_error(verb, usage_error(app, error, verb));
    return 2;
  }
  const Result<int> outcome = chosen();
  if (outcome) return *outcome;
  Error error = outcome.error();
  if (error.exit_code == 125 && verb != "run")
    error.exit_code = 1;  // there it tells ration's failure from the program's
  session.print_error(verb, error);
  return error.exit_code;
}
