// The options of every verb. What else is said of a verb is in verb_texts.cpp.
#include <fmt/format.h>

#include "adapters/containers/cdi.hpp"
#include "adapters/containers/snippet.hpp"
#include "adapters/containers/wrapper.hpp"
#include "cli/command_line.hpp"
#include "cli/text/reference.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace {

/// A word of the verb's own; the usage line says what it means.
template <class Value>
CLI::Option* word(CLI::App* verb, const char* name, Value& value, const char* type) {
  return option(verb, name, value, type, "");
}

void action(CLI::App* verb, std::string& value, const std::vector<std::string>& choices) {
  word(verb, "action", value, "ACTION")->required()->check(CLI::IsMember(choices));
}

void add_yes(CommandLine& line, CLI::App* verb) { verb->add_flag("-y,--yes", line.session.yes, "do not ask"); }

void add_sim_cuda(CLI::App* verb, std::string& cuda) {
  option(verb, "--sim-cuda", cuda, "VERSION",
         "with --sim, the CUDA runtime to simulate: auto (what each program asks for), 12, 13, none");
}

void add_plan_options(CLI::App* verb, RunOptions& typed) {
  auto& wish = typed.wish;
  option(verb, "-l,--limit", wish.limit, "SIZE", "bytes it can never exceed: 4GiB, 512MiB, 50%, max-1GiB");
  option(verb, "--guarantee", wish.guarantee, "SIZE",
         "bytes kept for it; an error if they cannot be promised beside others");
  option(verb, "--gpu", wish.gpu, "GPU",
         "index, UUID, several (0,1), all, or auto: the one with the most room. The limit is per GPU. Left out: "
         "CUDA_VISIBLE_DEVICES, or all that --sim names, else auto");
  option(verb, "--slice", wish.slice, "SLICE", "run inside a slice made by ration split");
  option(verb, "-n,--name", wish.name, "NAME", "name of the workload");
  option(verb, "--tenant", wish.tenant, "TENANT", "who is charged");
  option(verb, "--label", wish.labels, "KEY=VALUE", "a note kept with the run; may be given again")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);  // the word after it may be the program
  option(verb, "--on-deny", wish.on_deny, "ANSWER", "fail | wait | wait:30s: what a denied allocation does");
  option(verb, "--account", wish.account, "KIND", "device: everything nvidia-smi counts | heap: allocations only");
  option(
      verb, "--managed", wish.managed, "POLICY",
      "managed memory: resident: what may be on the device, the rest stays on the host | charge: all of it | ignore");
  verb->add_flag("--growth", wish.growth, "TensorFlow and JAX start small and grow, whatever their variables say");
  verb->add_option_function<std::string>(
          "--framework-hints", [&wish](const std::string& hints) { wish.framework_hints = hints == "auto"; },
          "auto: frameworks start small unless told otherwise | off")
      ->check(CLI::IsMember({"auto", "off"}))
      ->type_name("auto|off");
  verb->add_flag("--require-enforced", typed.require_enforced,
                 "exit 6 if not everything of this program would be held");
  verb->add_flag("--require-limit", typed.require_limit, "exit 6 if less than the limit could be taken at the start");
  verb->add_flag("--allow-ungoverned", typed.allow_ungoverned, "start it although the limit would not hold for it");
  option(verb, "--summary", typed.summary, "KIND", "auto | always | never | json:FILE");
  add_sim_cuda(verb, typed.simulated_cuda);
}

void add_container_limit(CLI::App* verb, admission::PlanRequest& wish) {
  option(verb, "-l,--limit", wish.limit, "SIZE", "bytes it can never exceed: 4GiB, 512MiB, 50%");
  option(verb, "--gpu", wish.gpu, "GPU", "with --limit: index or UUID");
  option(verb, "--slice", wish.slice, "SLICE", "a slice made by ration split");
  option(verb, "--tenant", wish.tenant, "TENANT", "who is charged, and whose limit holds");
}

std::vector<std::string> snippet_names() {
  std::vector<std::string> names;
  for (const adapters::SnippetKind& kind : adapters::snippet_kinds()) names.emplace_back(kind.name);
  return names;
}

void add_snippet(CommandLine& line) {
  auto [snippet, typed] =
      line.add<SnippetOptions>("snippet", [&line](const Session& session, SnippetOptions options) -> Result<int> {
        options.run.program = line.words.program;
        return cli::snippet(session, options);
      });
  word(snippet, "kind", typed.kind, "KIND")->required()->check(CLI::IsMember(snippet_names()));
  word(snippet, "name", typed.name, "NAME");
  add_container_limit(snippet, typed.run.wish);
  option(snippet, "--node", typed.node, "NODE", "with slurm: what Slurm's configuration has to say of this machine");
  option(snippet, "--instances", typed.instances, "N", "of a model server, which share the limit")
      ->check(CLI::Range(1, 64));
}

std::vector<std::string> inject_names() {
  std::vector<std::string> names = adapters::wrapper_names();
  names.insert(names.end(), {"compose", "oci"});
  return names;
}

void add_inject(CommandLine& line) {
  auto [inject, typed] =
      line.add<InjectOptions>("inject", [&line](const Session& session, InjectOptions options) -> Result<int> {
        options.run.program = line.words.program;
        options.run.summary = "never";
        return cli::inject(session, options);
      });
  word(inject, "engine", typed.engine, "ENGINE")->required()->check(CLI::IsMember(inject_names()));
  word(inject, "bundle", typed.bundle, "BUNDLE");
  add_container_limit(inject, typed.run.wish);
  inject->add_flag("--without-cdi", typed.without_cdi,
                   "mounts and variables in place of a device: for engines without CDI");
  option(inject, "--service", typed.services, "SERVICE", "with compose: only this one; may be given again")
      ->expected(1)
      ->take_all();
}

void add_jupyter(CommandLine& line) {
  auto [jupyter, typed] =
      line.add<JupyterOptions>("jupyter", [&line](const Session& session, JupyterOptions options) -> Result<int> {
        options.run_options = line.words.program;
        return cli::jupyter(session, options);
      });
  action(jupyter, typed.action, {"install", "list", "uninstall"});
  word(jupyter, "kernel", typed.kernel, "KERNEL");
  option(jupyter, "-n,--name", typed.name, "NAME", "of a new kernel; ration-4gib if left out");
  option(jupyter, "-l,--limit", typed.limit, "SIZE", "bytes of each GPU that a notebook can never exceed: 4GiB, 50%");
  option(jupyter, "--display-name", typed.display_name, "TEXT", "what people choose it by");
  option(jupyter, "--python", typed.python, "PATH", "the Python that has Jupyter, and runs the cells; else python3");
  auto* user = jupyter->add_flag("--user", typed.user, "for this user; else for everybody");
  auto* sys_prefix = jupyter->add_flag("--sys-prefix", typed.sys_prefix, "into the environment of that Python");
  option(jupyter, "--prefix", typed.prefix, "FOLDER", "into the environment at this folder")
      ->excludes(user)
      ->excludes(sys_prefix);
  sys_prefix->excludes(user);
}

void add_run(CommandLine& line) {
  auto [run, typed] = line.add<RunOptions>("run", [&line](const Session& session, RunOptions options) -> Result<int> {
    const CLI::App& verb = *line.app.get_subcommand("run");
    if (auto good = check_before_program(line.words, verb.remaining(), long_options(verb)); !good)
      return tl::unexpected(good.error());
    if (options.scope) return run_in_scope(line.words);
    options.queue = verb.count("--wait") > 0;
    options.program = line.words.marked ? line.words.program : verb.remaining();
    return cli::run(session, std::move(options));
  });
  run->prefix_command();
  add_plan_options(run, typed);
  auto* wait =
      option(run, "--wait", typed.wait, "TIME", "wait in the daemon's queue until the limit is free, at most so long")
          ->expected(0, 1);
  option(run, "--priority", typed.priority, "N", "with --wait: larger goes first")->needs(wait);
  option(run, "--retry", typed.retries, "N", "so often again with more, if it fails right after a denial")
      ->check(CLI::Range(0, 100));
  option(run, "--retry-limit", typed.retry_limit, "STEP", "how much more each time: +25%, +2GiB");
  option(run, "--denied-exit", typed.denied_exit, "CODE", "exit code if it fails right after a denial")
      ->check(CLI::Range(1, 255));
  run->add_flag("--scope", typed.scope, "in a control group of its own, made by systemd");
  run->add_flag("--print-env", typed.print_env, "print the variables that would be set, and do nothing");
  line.add_output(run);

  auto [env, of_env] = line.add<RunOptions>("env", cli::env);
  add_plan_options(env, of_env);
  line.add_output(env);

  auto [sim, of_sim] = line.add<SimulationOptions>("sim", [&line](const Session&, const SimulationOptions& options) {
    line.session.simulated = true;
    return simulation(line.session, options, line.words.program);
  });
  action(sim, of_sim.action, {"env"});
  add_sim_cuda(sim, of_sim.cuda);
  line.add_output(sim);
}

void add_workload_verbs(CommandLine& line) {
  auto [stop, to_stop] = line.add<StopOptions>("stop", cli::stop);
  word(stop, "workload", to_stop.name, "WORKLOAD")->required();
  option(stop, "--grace", to_stop.grace, "TIME", "between SIGTERM and SIGKILL; 10s if left out");
  add_yes(line, stop);
  line.add_output(stop);

  auto [trim, to_trim] = line.add<TrimOptions>("trim", cli::trim);
  word(trim, "workload", to_trim.name, "WORKLOAD");
  option(trim, "--idle", to_trim.idle, "TIME", "all that took and gave back nothing for so long: 30m");
  line.add_output(trim);

  using OfWorkload = Result<int> (*)(const Session&, const std::string&);
  for (const auto& [name, perform] : std::initializer_list<std::pair<const char*, OfWorkload>>{
           {"suspend", suspend}, {"resume", resume}, {"recommend", recommend}}) {
    auto [verb, workload] = line.add<std::string>(name, perform);
    word(verb, "workload", workload, "WORKLOAD")->required();
    line.add_output(verb);
  }

  auto [set, typed] = line.add<SetOptions>("set", [&line](const Session& session, const SetOptions& options) {
    const bool by_hour = line.app.get_subcommand("set")->count("--schedule") > 0;
    return by_hour ? schedule(session, options.schedule) : cli::set(session, options);
  });
  auto* whose = word(set, "name", typed.name, "WORKLOAD");
  option(set, "-l,--limit", typed.limit, "SIZE", "its new limit; +1GiB or -1GiB: so much more or less")->needs(whose);
  option(set, "--guarantee", typed.guarantee, "SIZE", "its new guarantee")->needs(whose);
  option(set, "--gpu", typed.gpu, "GPU", "only on this GPU")->needs(whose);
  option(set, "--schedule", typed.schedule, "'NAME=[DAYS ]FROM-TO:TENANT=SIZE,…'",
         "limits of tenants by the hour, kept by the daemon; NAME=off ends one; alone shows all")
      ->expected(0, 1)
      ->excludes(whose);
  add_yes(line, set);
  line.add_output(set);
}

void add_views(CommandLine& line) {
  auto [ps, to_list] = line.add<PsOptions>("ps", cli::ps);
  word(ps, "workload", to_list.name, "WORKLOAD");
  option(ps, "--sort", to_list.sort, "FIELDS", "-used,name: the largest first, then by name");
  option(ps, "-w,--watch", to_list.every, "TIME", "again every two seconds, or every so often; ^C ends it")
      ->expected(0, 1)
      ->default_str("2s");
  option(ps, "--tenant", to_list.tenant, "TENANT", "only of this tenant");
  option(ps, "--user", to_list.user, "USER", "only of this user");
  option(ps, "--gpu", to_list.gpu, "GPU", "only this GPU");
  option(ps, "--filter", to_list.filter, "FILTER", "only what matches: used>4GiB & denied>0, tenant~=nlp, idle>30m");
  line.add_output(ps, true, true);

  auto [top, to_show] = line.add<TopOptions>("top", cli::top);
  top->add_flag("--once", to_show.once, "one frame as text; also where there is no terminal");
  option(top, "--filter", to_show.filter, "FILTER",
         "only these: 'used>4GiB & denied>0', tenant~=nlp, governed==no, idle>30m");
  option(top, "--sort", to_show.sort, "FIELDS", "-used,name: the largest first, then by name");
  top->add_flag("--readonly", to_show.read_only, "no key changes anything; so it is for whoever is not an operator");
  top->add_flag("--ascii", to_show.ascii, "for a terminal without UTF-8; else as LC_ALL and LANG say");
  line.add_output(top);

  auto [explain, of_what] = line.add<ExplainOptions>("explain", cli::explain);
  auto* part = word(explain, "target", of_what.target, "WORKLOAD");
  auto* device = option(explain, "--gpu", of_what.gpu, "GPU", "a whole device")->excludes(part);
  option(explain, "--tenant", of_what.tenant, "TENANT", "a whole tenant, also where a workload has its name")
      ->excludes(part)
      ->excludes(device);
  line.add_output(explain);

  auto [why, reason] = line.add<std::string>("why", cli::why);
  word(why, "what", reason, "WORKLOAD");
  line.add_output(why);

  auto [events, of_past] = line.add<EventsOptions>("events", cli::events);
  events->add_flag("-f,--follow", of_past.follow, "go on as they happen");
  option(events, "--since", of_past.since, "NUMBER|TIME",
         "after the event of this number, or of the last so long: 10m");
  option(events, "-n,--lines", of_past.lines, "N", "so many of the newest")->check(CLI::Range(0, 10000));
  option(events, "--type", of_past.types, "TYPE", "denied, resized and so on")->delimiter(',');
  option(events, "--tenant", of_past.tenants, "TENANT", "only of these tenants")->delimiter(',');
  option(events, "--workload", of_past.workloads, "NAME", "only of these workloads")->delimiter(',');
  line.add_output(events);

  line.add_output(
      line.add<Nothing>("dashboard", [](const Session& session, Nothing) { return dashboard(session); }).first);
}

void add_planning(CommandLine& line) {
  auto [split, to_split] = line.add<SplitOptions>("split", cli::split);
  word(split, "gpu", to_split.gpu, "GPU");
  option(split, "--into", to_split.into, "N", "so many equal slices");
  option(split, "--sizes", to_split.sizes, "SIZES", "6GiB,6GiB,rest");
  option(split, "--ratio", to_split.ratio, "RATIO", "40:60");
  option(split, "--names", to_split.names, "NAMES", "a,b,c instead of 0.0,0.1,0.2");
  split->add_flag("--off", to_split.off, "make it whole again");
  add_yes(line, split);
  line.add_output(split, true);

  auto [plan, to_plan] = line.add<PlanOptions>("plan", cli::plan);
  option(plan, "--gpu", to_plan.gpus, "GPUS", "hardware by name: A100-40:2, T4:15GiB*3; left out: this machine's")
      ->expected(1)
      ->take_all();
  option(plan, "--tenant", to_plan.tenants, "TENANT", "NAME=GUARANTEE[:LIMIT][*COUNT]; may be given again")
      ->expected(1)
      ->take_all()
      ->required();
  plan->add_flag("--spread", to_plan.spread, "side by side, so that limits can be reached, instead of tight");
  line.add_output(plan);

  auto [fits, to_fit] = line.add<FitsOptions>("fits", cli::fits);
  word(fits, "size", to_fit.size, "SIZE")->required();
  option(fits, "--gpu", to_fit.gpu, "GPU", "as of ration run: auto (any one), all, or these, together");
  line.add_output(fits);
}

void add_accounts(CommandLine& line) {
  auto [report, typed] = line.add<ReportOptions>("report", [&line](const Session& session, ReportOptions& options) {
    options.last = line.app.get_subcommand("report")->count("--last") > 0;
    return cli::report(session, options);
  });
  word(report, "action", typed.action, "ACTION")->check(CLI::IsMember({"close"}));
  word(report, "period", typed.period, "MONTH");
  option(report, "--last", typed.workload, "WORKLOAD", "the newest run, of all or of one workload")->expected(0, 1);
  option(report, "--slurm", typed.slurm_job, "JOB", "one job of Slurm, with what it was granted for how long");
  option(report, "--by", typed.by, "WHAT", "tenant, user, workload, label:KEY, gpu (or device) or day");
  option(report, "--window", typed.window, "TIME", "24h, 7d, 2026-01, thismonth, lastmonth");
  option(report, "--basis", typed.basis, "BASIS", "used, limit, guarantee, max(used,guarantee) or peak");
  option(report, "--price", typed.price, "PRICE", "of one GiB for an hour, for everybody: 0.031");
  choice(report, "--share-idle", typed.share_idle, "HOW", {"none", "even", "weighted"},
         "who pays for what nobody held: none, even or weighted");
  choice(report, "-o,--output", line.session.output, "FORMAT", {"text", "json", "csv", "md", "focus", "opencost"},
         "text, json, csv, md, focus (FOCUS 1.2) or opencost");
}

void add_machine_verbs(CommandLine& line) {
  auto [doctor, to_check] = line.add<DoctorOptions>("doctor", cli::doctor);
  doctor->add_flag("--probe", to_check.probe, "really try to exceed a limit in every way");
  doctor->add_flag("--try-suspend", to_check.try_suspend, "move a program of ration's own to the host and back");
  doctor->add_flag("--strict", to_check.strict, "warnings count as failures");
  option(doctor, "--only", to_check.only, "CHECK", "these checks, or groups of them")->delimiter(',');
  option(doctor, "--skip", to_check.skip, "CHECK", "all but these")->delimiter(',');
  line.add_output(doctor, true);

  auto [config, to_configure] = line.add<ConfigOptions>("config", cli::config);
  action(config, to_configure.action, {"init", "print", "validate", "path", "reload"});
  word(config, "file", to_configure.file, "FILE");
  config->add_flag("--force", to_configure.force, "init: replace the file that is there");
  line.add_output(config);

  auto [serve, to_serve] = line.add<ServeOptions>("serve", cli::serve);
  option(serve, "--listen", to_serve.listen, "ADDRESS:PORT", "address and port of HTTP; \"\": none")
      ->each([&given = to_serve.listen_given](const std::string&) { given = true; });
  option(serve, "--state", to_serve.state, "FOLDER", "folder of its database");

  auto [service, to_control] = line.add<ServiceOptions>("service", cli::service);
  action(service, to_control.action, {"install", "uninstall", "start", "stop", "restart", "status", "print"});
  service->add_flag("--user", to_control.user, "of this user instead of the machine");
  service->add_flag("--now", to_control.now, "with install: start it, now and at every boot");

  auto [demo, to_play] = line.add<DemoOptions>("demo", cli::demo);
  option(demo, "--scenario", to_play.scenario, "SCENARIO",
         "demo, jupyterhub, gan, serving, fragmentation, noisy-neighbour, slurm, kubernetes, or a TOML file");
  option(demo, "--speed", to_play.speed, "X", "how many times as fast")->check(CLI::Range(0.1, 100.0));
  option(demo, "--seed", to_play.seed, "N", "of what the programs do at random");
  option(demo, "--for", to_play.length, "TIME", "end after so long; else at Ctrl-C or, without a terminal, at the end");
  demo->add_flag("--keep", to_play.keep, "end at Ctrl-C alone, without a terminal too");
}

void add_help(CommandLine& line) {
  auto [help, topic] = line.add<std::vector<std::string>>(
      "help", [&line](const Session&, const std::vector<std::string>& words) { return cli::help(line.app, words); });
  word(help, "topic", topic, "TOPIC")->expected(0, 2);

  line.add<Nothing>("version", [](const Session&, Nothing) -> Result<int> {
    fmt::print("ration {}\n", RATION_VERSION);
    return 0;
  });

  auto [completion, shell] = line.add<std::string>(
      "completion", [](const Session&, const std::string& name) { return cli::completion(name); });
  word(completion, "shell", shell, "SHELL")->required();
}

void add_container_hook(CommandLine& line) {
  auto [hook, typed] =
      line.add_hidden<ContainerHookOptions>(adapters::cdi::kHookVerb, kSim | kSocket, cli::container_hook);
  action(hook, typed.action, {"start", "stop"});
  word(hook, "device", typed.device, "DEVICE")->required();
}

/// Not for people: used by the build (manual pages), by shells (completion), by run and doctor (one context in a
/// process of its own), by the daemon (memory of programs moved in a process of its own), by libration (a program
/// that is governed from inside) and by the daemon's pod (the package copied to its node).
void add_hidden_verbs(CommandLine& line) {
  auto [manual, folder] = line.add_hidden<std::string>(
      "manual", 0, [&line](const Session&, const std::string& place) { return cli::manual(line.app, place); });
  word(manual, "folder", folder, "FOLDER")->required();

  line.add_hidden<Nothing>("candidates", kSim | kSocket, [&line](const Session& session, Nothing) {
    return candidates(session, line.app, line.words.program);
  });

  auto [measure, uuid] = line.add_hidden<std::string>("measure-context", kSim, measure_context);
  word(measure, "uuid", uuid, "GPU")->required();

  auto [activate, of_activate] = line.add_hidden<RunOptions>("activate", kSim | kSocket, cli::activate);
  add_plan_options(activate, of_activate);

  auto [job_hook, of_job] = line.add_hidden<JobHookOptions>("job-hook", kSim | kSocket, cli::job_hook);
  action(job_hook, of_job.action, {"prepare", "start", "enter", "summary", "stop"});
  word(job_hook, "job", of_job.job, "JOB")->required();
  word(job_hook, "facts", of_job.facts, "FACT");

  auto [copy, target] = line.add_hidden<std::string>(
      "copy-package", 0, [](const Session&, const std::string& place) { return cli::copy_package(place); });
  word(copy, "folder", target, "FOLDER")->required();

  auto [checkpoint, typed] = line.add_hidden<CheckpointOptions>(
      "checkpoint-processes", 0,
      [](const Session&, const CheckpointOptions& options) { return checkpoint_processes(options); });
  action(checkpoint, typed.action, {"suspend", "resume"});
  word(checkpoint, "--driver", typed.driver_folder, "FOLDER");
  word(checkpoint, "--lock", typed.lock, "FILE");
  word(checkpoint, "--book", typed.book, "FILE");
  word(checkpoint, "processes", typed.processes, "PROCESS");
}

}  // namespace

void add_verbs(CommandLine& line) {
  // A container waits for it, and to declare the other verbs takes longer than what the hook does.
  if (line.words.verb == adapters::cdi::kHookVerb) return add_container_hook(line);
  add_run(line);
  add_inject(line);
  add_snippet(line);
  add_jupyter(line);
  add_views(line);
  add_workload_verbs(line);
  add_planning(line);
  add_accounts(line);
  add_machine_verbs(line);
  add_help(line);
  add_hidden_verbs(line);
}

}  // namespace ration::cli
