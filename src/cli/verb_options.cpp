// The options of every verb. The other texts of a verb are in verb_texts.cpp.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "adapters/containers/cdi.hpp"
#include "adapters/containers/snippet.hpp"
#include "adapters/containers/wrapper.hpp"
#include "cli/command_line.hpp"
#include "cli/start/run_recording.hpp"
#include "cli/text/reference.hpp"
#include "cli/verbs/verbs.hpp"
#include "trace/export/exporter.hpp"

namespace ration::cli {
namespace {

/// Adds a positional argument; the usage line of the verb explains it.
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
         "with --sim, the CUDA runtime to simulate: auto (the version that each program asks for), 12, 13, none");
}

void add_plan_options(CLI::App* verb, RunOptions& typed) {
  auto& request = typed.request;
  option(verb, "-l,--limit", request.limit, "SIZE", "limit of GPU memory: 4GiB, 512MiB, 50%, max-1GiB");
  option(
      verb, "--host-limit", request.host_limit, "SIZE",
      "limit of pinned host memory for all processes of the workload together: 8GiB, or 50% of the machine's memory");
  option(verb, "--guarantee", request.guarantee, "SIZE",
         "memory kept for the workload; rejected if other guarantees leave too little memory");
  option(
      verb, "--gpu", request.gpu, "GPU",
      "index, UUID, several (0,1), all, or auto (the GPU with the most room). The limit applies to each GPU. Default: "
      "CUDA_VISIBLE_DEVICES, else all GPUs of --sim, else auto");
  option(verb, "--slice", request.slice, "SLICE", "run inside a slice made by ration split");
  option(verb, "-n,--name", request.name, "NAME", "name of the workload");
  option(verb, "--tenant", request.tenant, "TENANT", "tenant that is charged");
  option(verb, "--label", request.labels, "KEY=VALUE", "note kept with the run; can be repeated")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);  // the next word may be the program
  option(verb, "--on-deny", request.on_deny, "ANSWER", "what happens to a denied allocation: fail | wait | wait:30s");
  option(verb, "--account", request.account, "KIND",
         "memory that counts: device (everything that nvidia-smi counts) | heap (allocations only)");
  option(verb, "--managed", request.managed, "POLICY",
         "managed memory that counts: resident (the part that may be on the GPU; the rest stays on the host) | "
         "charge (all of it) | ignore (none)");
  verb->add_flag("--growth", request.growth,
                 "make TensorFlow and JAX start with little memory and grow, whatever their variables say");
  verb->add_option_function<std::string>(
          "--framework-hints", [&request](const std::string& hints) { request.framework_hints = hints == "auto"; },
          "auto: frameworks start with little memory unless their variables are set | off")
      ->check(CLI::IsMember({"auto", "off"}))
      ->type_name("auto|off");
  verb->add_flag("--require-enforced", typed.require_enforced,
                 "exit with 6 if the limit could not be enforced on every part of the program");
  verb->add_flag("--require-limit", typed.require_limit,
                 "exit with 6 if less than the limit is available at the start");
  verb->add_flag("--allow-ungoverned", typed.allow_ungoverned,
                 "start the program even if the limit could not be enforced on it");
  option(
      verb, "--summary", typed.summary, "KIND",
      "summary at the end: auto (on a terminal, or if the program failed after a denial) | always | never | json:FILE");
  add_sim_cuda(verb, typed.simulated_cuda);
}

CLI::Option* add_sites(CLI::App* verb, RunOptions& typed) {
  return choice(verb, "--sites", typed.record_sites, "KIND", {"native", "python"},
                "record the calls that led to each request: native | python (native in threads without Python)");
}

CLI::Option* add_deep(CLI::App* verb, RunOptions& typed) {
  return verb->add_flag("--deep", typed.request.deep,
                        "make PyTorch, TensorFlow and JAX allocate each tensor from the driver, so that ration "
                        "whatif can try other allocators; slower");
}

void add_container_limit(CLI::App* verb, admission::PlanRequest& request) {
  option(verb, "-l,--limit", request.limit, "SIZE", "limit of GPU memory: 4GiB, 512MiB, 50%");
  option(verb, "--gpu", request.gpu, "GPU", "with --limit: index or UUID");
  option(verb, "--slice", request.slice, "SLICE", "slice made by ration split");
  option(verb, "--tenant", request.tenant, "TENANT", "tenant that is charged and whose limit applies");
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
  add_container_limit(snippet, typed.run.request);
  option(snippet, "--node", typed.node, "NODE",
         "with slurm: this machine's name in Slurm; prints the lines that Slurm's configuration needs for this "
         "machine");
  option(snippet, "--instances", typed.instances, "N", "with a model server: how many instances share the limit")
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
  add_container_limit(inject, typed.run.request);
  inject->add_flag("--without-cdi", typed.without_cdi,
                   "for engines without CDI: use mounts and environment variables in place of a device");
  option(inject, "--service", typed.services, "SERVICE", "with compose: only this service; can be repeated")
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
  option(jupyter, "-n,--name", typed.name, "NAME",
         "name of a new kernel; default: made from the limit, such as ration-4gib");
  option(jupyter, "-l,--limit", typed.limit, "SIZE", "limit of a notebook on each GPU: 4GiB, 50%");
  option(jupyter, "--display-name", typed.display_name, "TEXT", "name that Jupyter shows");
  option(jupyter, "--python", typed.python, "PATH", "Python that has Jupyter and runs the cells; default: python3");
  auto* user = jupyter->add_flag("--user", typed.user, "install for this user; default: for all users");
  auto* sys_prefix =
      jupyter->add_flag("--sys-prefix", typed.sys_prefix, "install in the environment of the Python in --python");
  option(jupyter, "--prefix", typed.prefix, "FOLDER", "install in the environment at this folder")
      ->excludes(user)
      ->excludes(sys_prefix);
  sys_prefix->excludes(user);
}

void add_run(CommandLine& line) {
  auto [run, typed] = line.add<RunOptions>("run", [&line](const Session& session, RunOptions options) -> Result<int> {
    const CLI::App& verb = *line.app.get_subcommand("run");
    if (options.scope) return run_in_scope(line.words);
    options.queue = verb.count("--wait") > 0;
    options.program = line.words.marked ? line.words.program : verb.remaining();
    return cli::run(session, std::move(options));
  });
  run->prefix_command();
  add_plan_options(run, typed);
  auto* wait = option(run, "--wait", typed.wait, "TIME",
                      "wait in the daemon's queue until there is room for the limit, which is then kept for the run; "
                      "with a time, wait at most that long")
                   ->expected(0, 1);
  option(run, "--priority", typed.priority, "N", "with --wait: a run with a larger number starts first")->needs(wait);
  option(run, "--retry", typed.retries, "N",
         "if the program fails right after a denial, start it again with a larger limit, up to N times")
      ->check(CLI::Range(0, 100));
  option(run, "--retry-limit", typed.retry_limit, "STEP", "how much --retry adds to the limit: +25%, +2GiB");
  option(run, "--denied-exit", typed.denied_exit, "CODE", "exit code if the program fails right after a denial")
      ->check(CLI::Range(1, 255));
  auto* record = option(run, "--record", typed.record, "FILE",
                        "record what the program's processes do with memory, for ration inspect");
  add_sites(run, typed)->needs(record);
  add_deep(run, typed)->needs(record);
  option(run, "--tensorboard", typed.tensorboard, "FOLDER",
         "once a second, write the workload's use, limit, peak and denials into this folder, as scalars of "
         "TensorBoard");
  run->add_flag("--scope", typed.scope, "run the program in its own control group, made by systemd");
  run->add_flag("--print-env", typed.print_env, "print the variables that would be set; start nothing");
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
  word(stop, "workload", to_stop.names, "WORKLOAD")->required();
  option(stop, "--grace", to_stop.grace, "TIME", "time between SIGTERM and SIGKILL; default: 10s");
  add_yes(line, stop);
  line.add_output(stop);

  auto [trim, to_trim] = line.add<TrimOptions>("trim", cli::trim);
  word(trim, "workload", to_trim.name, "WORKLOAD");
  option(trim, "--idle", to_trim.idle, "TIME", "all workloads whose memory did not change during this time: 30m");
  line.add_output(trim);

  using OfWorkload = Result<int> (*)(const Session&, const std::string&);
  for (const auto& [name, perform] :
       std::initializer_list<std::pair<const char*, OfWorkload>>{{"suspend", suspend}, {"resume", resume}}) {
    auto [verb, workload] = line.add<std::string>(name, perform);
    word(verb, "workload", workload, "WORKLOAD")->required();
    line.add_output(verb);
  }

  auto [set, typed] = line.add<SetOptions>("set", [&line](const Session& session, const SetOptions& options) {
    const bool by_hour = line.app.get_subcommand("set")->count("--schedule") > 0;
    return by_hour ? schedule(session, options.schedule) : cli::set(session, options);
  });
  auto* whose = word(set, "name", typed.name, "WORKLOAD");
  option(set, "-l,--limit", typed.limit, "SIZE", "new limit; +1GiB and -1GiB change the present limit")->needs(whose);
  option(set, "--host-limit", typed.host_limit, "SIZE",
         "new limit of pinned host memory; unlimited removes the limit, +1GiB and -1GiB change the present limit")
      ->needs(whose);
  option(set, "--guarantee", typed.guarantee, "SIZE", "new guarantee; none removes the guarantee")->needs(whose);
  option(set, "--gpu", typed.gpu, "GPU", "apply the change only on this GPU")->needs(whose);
  option(set, "--schedule", typed.schedule, "'NAME=[DAYS ]FROM-TO:TENANT=SIZE,…'",
         "limits of tenants for hours of the day; NAME=off removes a schedule; without a value, --schedule shows all "
         "schedules")
      ->expected(0, 1)
      ->excludes(whose);
  add_yes(line, set);
  line.add_output(set);
}

void add_views(CommandLine& line) {
  auto [ps, to_list] = line.add<PsOptions>("ps", cli::ps);
  word(ps, "workload", to_list.name, "WORKLOAD");
  option(ps, "--sort", to_list.sort, "FIELDS",
         "fields to sort by: -used,name sorts by use, the largest first, then by name");
  choice(ps, "--by", to_list.by, "WHAT", {"tenant"},
         "tenant: one row for each tenant, with its limit and the sums of its workloads");
  option(ps, "-w,--watch", to_list.every, "TIME", "refresh every 2 s, or at this interval; Ctrl-C stops")
      ->expected(0, 1)
      ->default_str("2s");
  option(ps, "--tenant", to_list.tenant, "TENANT", "only workloads of this tenant");
  option(ps, "--user", to_list.user, "USER", "only workloads of this user");
  option(ps, "--gpu", to_list.gpu, "GPU", "only this GPU");
  option(ps, "--filter", to_list.filter, "FILTER",
         "only rows that match: 'used>4GiB & denied>0', tenant~=nlp, governed==no, idle>30m");
  line.add_output(ps, {"csv", "jsonl"});

  auto [top, to_show] = line.add<TopOptions>("top", cli::top);
  top->add_flag("--once", to_show.once, "print one frame as text; the default without a terminal");
  option(top, "--filter", to_show.filter, "FILTER",
         "only rows that match: 'used>4GiB & denied>0', tenant~=nlp, governed==no, idle>30m");
  option(top, "--sort", to_show.sort, "FIELDS",
         "fields to sort by: -used,name sorts by use, the largest first, then by name");
  top->add_flag("--readonly", to_show.read_only,
                "ignore keys that change something; the default for users who are not operators");
  top->add_flag("--ascii", to_show.ascii, "draw for a terminal without UTF-8; default: as LC_ALL and LANG say");
  line.add_output(top);

  auto [explain, of_what] = line.add<ExplainOptions>("explain", cli::explain);
  auto* part = word(explain, "target", of_what.target, "WORKLOAD");
  auto* device = option(explain, "--gpu", of_what.gpu, "GPU", "explain a whole GPU")->excludes(part);
  option(explain, "--tenant", of_what.tenant, "TENANT", "explain a tenant, even if a workload has the same name")
      ->excludes(part)
      ->excludes(device);
  line.add_output(explain);

  auto [why, reason] = line.add<std::string>("why", cli::why);
  word(why, "what", reason, "WORKLOAD");
  line.add_output(why);

  auto [events, of_past] = line.add<EventsOptions>("events", cli::events);
  events->add_flag("-f,--follow", of_past.follow, "print further events as they happen");
  option(events, "--since", of_past.since, "NUMBER|TIME",
         "only events after the event with this number, or from the last minutes or hours: 10m");
  option(events, "-n,--lines", of_past.lines, "N", "only the newest N")->check(CLI::Range(0, 10000));
  option(events, "--type", of_past.types, "TYPE", "only events of these types: denied, resized and so on")
      ->delimiter(',');
  option(events, "--tenant", of_past.tenants, "TENANT", "only events of these tenants")->delimiter(',');
  option(events, "--workload", of_past.workloads, "NAME", "only events of these workloads")->delimiter(',');
  line.add_output(events);

  line.add_output(
      line.add<Nothing>("dashboard", [](const Session& session, Nothing) { return dashboard(session); }).first);
}

void add_planning(CommandLine& line) {
  auto [split, to_split] = line.add<SplitOptions>("split", cli::split);
  word(split, "gpu", to_split.gpu, "GPU");
  option(split, "--into", to_split.into, "N", "number of slices of equal size");
  option(split, "--sizes", to_split.sizes, "SIZES", "sizes of the slices: 6GiB,6GiB,rest");
  option(split, "--ratio", to_split.ratio, "RATIO", "ratio of the slices: 40:60");
  option(split, "--names", to_split.names, "NAMES", "names of the slices: a,b,c; default: 0.0,0.1,0.2");
  split->add_flag("--off", to_split.off, "remove the slices of the GPU");
  add_yes(line, split);
  line.add_output(split, {"csv"});

  auto [to_export, exported] = line.add<ExportOptions>("export", cli::export_recording);
  word(to_export, "file", exported.file, "FILE")->required();
  std::vector<std::string> formats;
  for (const trace::Exporter& each : trace::exporters()) formats.emplace_back(each.name);
  option(to_export, "--format", exported.format, "FORMAT", fmt::format("{}", fmt::join(formats, ", ")).c_str())
      ->required()
      ->check(CLI::IsMember(formats));
  option(to_export, "-o,--output", exported.out, "PATH",
         "file or folder to write; - is standard output; default: beside the recording");

  auto [whatif, to_answer] = line.add<WhatIfOptions>("whatif", [&line](const Session& session, WhatIfOptions options) {
    options.program = line.words.program;
    return cli::whatif(session, options);
  });
  word(whatif, "recording", to_answer.recordings, "RECORDING")->required();
  option(whatif, "-l,--limit", to_answer.limit, "SIZE",
         "limit to try; shows the first request that this limit would have denied");
  option(whatif, "--with", to_answer.with, "RECORDING",
         "another recorded run on the same GPU; shows how much memory both need if the other run starts at the worst "
         "moment");
  option(whatif, "--gpu", to_answer.gpus, "GPUS",
         "size or model of the GPUs: 12GiB, A100-40:2, T4:15GiB*3. With --with, shows when the second run can "
         "start. Without --with, shows how many copies of a run fit, or whether the sizes fit; for sizes, the default "
         "is this machine's GPUs")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  option(whatif, "--allocator", to_answer.allocators, "ALLOCATOR",
         "allocator to try: pytorch, tensorflow, cuda_malloc_async, ration or none; with settings: "
         "pytorch:max_split_size_mb:128; can be repeated")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  whatif->add_flag("--run", to_answer.run,
                   "run the recorded program, or the program after --, under the limit on a simulated GPU: the GPU "
                   "of --sim, else a GPU like the recorded GPU");
  line.add_output(whatif);

  auto [fits, to_fit] = line.add<FitsOptions>("fits", cli::fits);
  auto* size = word(fits, "size", to_fit.size, "SIZE");
  option(fits, "--recording", to_fit.recording, "RECORDING",
         "in place of the size: the memory that this recorded run needs")
      ->excludes(size);
  option(fits, "--gpu", to_fit.gpu, "GPU",
         "as for ration run: auto (any one GPU), all (every GPU), 0,1 (each of these two)");
  option(fits, "--tenant", to_fit.tenant, "NAME",
         "for a workload of this tenant; default: the tenant that ration run would choose");
  line.add_output(fits);
}

void add_recordings(CommandLine& line) {
  auto [record, to_run] = line.add<RunOptions>("record", [&line](const Session& session, RunOptions options) {
    options.program = line.words.program;
    return options.program.empty() ? pack_recording(session, options.record) : cli::run(session, std::move(options));
  });
  option(record, "-o,--out", to_run.record, "FILE",
         "file for the recording; replaces an older recording, unless the program uses no GPU")
      ->required();
  add_sites(record, to_run);
  add_deep(record, to_run);
  add_plan_options(record, to_run);

  auto [to_import, imported] = line.add<ImportOptions>("import", cli::import_recording);
  word(to_import, "file", imported.file, "FILE")->required();
  option(to_import, "-o,--output", imported.out, "FILE",
         "file for the recording; default: the file's name with the ending .rec");

  auto [inspect, typed] = line.add<InspectOptions>("inspect", cli::inspect);
  word(inspect, "file", typed.file, "FILE")->required();
  option(inspect, "--at", typed.at, "TIME",
         "show the memory at this time after the start, such as 90s, instead of the memory at the peak");
  option(inspect, "--diff", typed.other, "FILE",
         "compare with another recording: show for which uses the other recording holds more or less memory");
  line.add_output(inspect, {"csv", "html"});
}

void add_accounts(CommandLine& line) {
  auto [recommend, words] = line.add<std::vector<std::string>>("recommend", cli::recommend);
  word(recommend, "workload", words, "WORKLOAD")->required();
  line.add_output(recommend);

  auto [report, typed] = line.add<ReportOptions>("report", [&line](const Session& session, ReportOptions& options) {
    options.last = line.app.get_subcommand("report")->count("--last") > 0;
    return cli::report(session, options);
  });
  word(report, "action", typed.action, "ACTION")->check(CLI::IsMember({"close"}));
  word(report, "period", typed.period, "MONTH");
  option(report, "--last", typed.workload, "WORKLOAD", "the newest run of all workloads, or of this workload")
      ->expected(0, 1);
  option(report, "--slurm", typed.slurm_job, "JOB",
         "one job of Slurm: the memory that it was granted, and for how long");
  option(report, "--by", typed.by, "WHAT",
         "make one row for each tenant, user, workload, label:KEY, gpu (or device) or day");
  option(report, "--window", typed.window, "TIME", "time to report: 24h, 7d, 2026-01, thismonth, lastmonth");
  option(report, "--basis", typed.basis, "BASIS",
         "memory that is charged: used, limit, guarantee, max(used,guarantee) or peak");
  option(report, "--price", typed.price, "PRICE", "price of one GiB for an hour, for every tenant: 0.031");
  choice(report, "--share-idle", typed.share_idle, "HOW", {"none", "even", "weighted"},
         "how tenants share the cost of memory that no tenant held: none, even or weighted");
  choice(report, "-o,--output", line.session.output, "FORMAT", {"text", "json", "csv", "md", "focus", "opencost"},
         "text, json, csv, md, focus (FOCUS 1.2) or opencost");
}

void add_machine_verbs(CommandLine& line) {
  auto [doctor, to_check] = line.add<DoctorOptions>("doctor", cli::doctor);
  doctor->add_flag("--probe", to_check.probe, "try to exceed a limit in every known way");
  doctor->add_flag("--try-suspend", to_check.try_suspend, "move the memory of a test program to the host and back");
  doctor->add_flag("--strict", to_check.strict, "count warnings as failures");
  option(doctor, "--only", to_check.only, "CHECK", "run only these checks, or these groups of checks")->delimiter(',');
  option(doctor, "--skip", to_check.skip, "CHECK", "all checks except these")->delimiter(',');
  line.add_output(doctor, {"csv"});

  auto [config, to_configure] = line.add<ConfigOptions>("config", cli::config);
  action(config, to_configure.action, {"init", "print", "validate", "path", "reload"});
  word(config, "file", to_configure.file, "FILE");
  config->add_flag("--force", to_configure.force, "with init: replace an existing file");
  line.add_output(config);

  auto [serve, to_serve] = line.add<ServeOptions>("serve", cli::serve);
  option(serve, "--listen", to_serve.listen, "ADDRESS:PORT",
         "address and port for HTTP; with \"\", the daemon opens no port")
      ->each([&given = to_serve.listen_given](const std::string&) { given = true; });
  option(serve, "--config", to_serve.configuration, "FILE",
         "configuration file in place of your own, like RATION_CONFIG")
      ->each([](const std::string& file) { ::setenv("RATION_CONFIG", std::filesystem::absolute(file).c_str(), 1); });
  option(serve, "--state", to_serve.state, "FOLDER", "folder of the daemon's database");

  auto [service, to_control] = line.add<ServiceOptions>("service", cli::service);
  action(service, to_control.action, {"install", "uninstall", "start", "stop", "restart", "status", "print"});
  service->add_flag("--user", to_control.user, "control this user's daemon, not the machine's daemon");
  service->add_flag("--now", to_control.now, "with install: start the daemon now and at every boot");

  auto [demo, to_play] = line.add<DemoOptions>("demo", cli::demo);
  option(demo, "--scenario", to_play.scenario, "SCENARIO",
         "demo, jupyterhub, gan, serving, fragmentation, noisy-neighbour, slurm, kubernetes, or a TOML file");
  option(demo, "--speed", to_play.speed, "X", "play the scenario X times as fast")->check(CLI::Range(0.1, 100.0));
  option(demo, "--seed", to_play.seed, "N", "seed of the programs' random numbers");
  option(demo, "--for", to_play.length, "TIME",
         "end after this time; default: at Ctrl-C or, without a terminal, at the end of the scenario");
  demo->add_flag("--keep", to_play.keep, "end only at Ctrl-C, even without a terminal");
}

void add_help(CommandLine& line) {
  auto [help, topic] = line.add<std::vector<std::string>>(
      "help", [&line](const Session&, const std::vector<std::string>& words) { return cli::help(line.app, words); });
  constexpr int kMostWordsOfATopic = 8;
  word(help, "topic", topic, "TOPIC")->expected(0, kMostWordsOfATopic);

  auto [docs, page] =
      line.add<DocsOptions>("docs", [](const Session&, const DocsOptions& typed) { return cli::docs(typed); });
  auto* which = word(docs, "page", page.page, "PAGE")->expected(0, kMostWordsOfATopic);
  docs->add_flag("--text", page.text, "print the page itself, for a terminal without a browser");
  docs->add_flag("--list", page.list, "list all pages with their titles")->excludes(which);

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

/// Adds the verbs that programs call: the build (manual), shells (candidates), run and doctor (measure-context), the
/// daemon (checkpoint-processes), libration (activate), Slurm's plugin (job-hook) and the daemon's pod (copy-package).
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
  // A container waits for the hook, and declaring the other verbs takes longer than the hook itself.
  if (line.words.verb == adapters::cdi::kHookVerb) return add_container_hook(line);
  add_run(line);
  add_inject(line);
  add_snippet(line);
  add_jupyter(line);
  add_views(line);
  add_workload_verbs(line);
  add_planning(line);
  add_recordings(line);
  add_accounts(line);
  add_machine_verbs(line);
  add_help(line);
  add_hidden_verbs(line);
}

}  // namespace ration::cli
