// The verbs of the command line, one file each. A verb returns its exit code, or the error to print.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "admission/plan.hpp"
#include "cli/doctor/doctor.hpp"
#include "cli/session/session.hpp"
#include "cli/start/measured_context.hpp"
#include "cli/start/run_options.hpp"

namespace CLI {
class App;
}

namespace ration::cli {

Result<int> run(const Session& session, RunOptions options);
/// `ration env`: the variables that `run` would set, for a shell.
Result<int> env(const Session& session, RunOptions options);
/// `ration activate`: a book for the program that started this one, with every GPU in it. Prints what it has to set, as
/// NAME=VALUE with a zero byte behind each. E1446.
Result<int> activate(const Session& session, RunOptions options);

struct SimulationOptions {
  std::string action;  ///< env
  std::string cuda;    ///< as RunOptions::simulated_cuda
};
/// `ration sim env`: what puts a program on the simulated node without a limit, for a shell. `program`: empty: any.
Result<int> simulation(const Session& session, const SimulationOptions& options,
                       const std::vector<std::string>& program);

struct PsOptions {
  std::string name, gpu, tenant, user;  ///< only of these; empty: of all
  std::string filter;                   ///< as rows/filter.hpp reads it; empty: everything
  std::string sort;                     ///< `-used,name`; empty: as they started
  std::string every;                    ///< --watch: again each time that so long has passed; empty: once
};
Result<int> ps(const Session& session, const PsOptions& options);

struct ExplainOptions {
  std::string target, gpu, tenant;  ///< one of them; all empty: GPU 0
};
Result<int> explain(const Session& session, const ExplainOptions& options);
/// `what` empty: the newest denial.
Result<int> why(const Session& session, const std::string& what);

struct SetOptions {
  std::string name, limit, guarantee, gpu;
  std::string schedule;  ///< instead of all of these: for schedule()
};
Result<int> set(const Session& session, const SetOptions& options);
/// `text` empty: only shows them.
Result<int> schedule(const Session& session, const std::string& text);

struct TrimOptions {
  std::string name, idle;  ///< one workload, or all that were idle for so long
};
Result<int> trim(const Session& session, const TrimOptions& options);
Result<int> suspend(const Session& session, const std::string& name);
Result<int> resume(const Session& session, const std::string& name);

struct ServeOptions {
  std::string state, listen;
  bool listen_given = false;
};
/// The daemon, in the foreground until it is told to end.
Result<int> serve(const Session& session, const ServeOptions& options);

struct ServiceOptions {
  std::string action;  ///< install | uninstall | start | stop | restart | status | print
  bool user = false, now = false;
};
Result<int> service(const Session& session, const ServiceOptions& options);

struct EventsOptions {
  bool follow = false;
  std::string since;         ///< the number of an event, or a time: 10m
  std::optional<int> lines;  ///< absent: 50, or all of the time that was asked for
  std::vector<std::string> types, tenants, workloads;
};
Result<int> events(const Session& session, const EventsOptions& options);

struct TopOptions {
  bool once = false, ascii = false, read_only = false;
  std::string filter, sort;
};
Result<int> top(const Session& session, const TopOptions& options);

struct ReportOptions {
  std::string action, period;  ///< `close 2026-01`; empty: show
  bool last = false;
  std::string workload;  ///< with `last`
  std::string by, window, basis, price, share_idle;
  std::string slurm_job;  ///< one job of Slurm instead
};
Result<int> report(const Session& session, const ReportOptions& options);
struct StopOptions {
  std::string name, grace = "10s";
};
Result<int> stop(const Session& session, const StopOptions& options);
/// A one-time link to the daemon's dashboard.
Result<int> dashboard(const Session& session);
Result<int> recommend(const Session& session, const std::string& workload);
Result<int> reload(const Session& session);

struct SplitOptions {
  std::string gpu, sizes, ratio, names;
  std::optional<int> into;
  bool off = false;
};
Result<int> split(const Session& session, const SplitOptions& options);

struct PlanOptions {
  std::vector<std::string> gpus, tenants;  ///< as typed
  bool spread = false;
};
Result<int> plan(const Session& session, const PlanOptions& options);

struct FitsOptions {
  std::string size, gpu;
};
Result<int> fits(const Session& session, const FitsOptions& options);

struct ConfigOptions {
  std::string action;  ///< init | print | validate | path
  std::string file;
  bool force = false;
};
Result<int> config(const Session& session, const ConfigOptions& options);

struct CheckpointOptions {
  std::string action, driver_folder, lock, book;  ///< suspend | resume
  std::vector<std::string> processes;             ///< words of node/state/checkpoint_jobs.hpp
};
Result<int> checkpoint_processes(const CheckpointOptions& options);

/// What a node needs of this package, copied into that folder. E1716: it cannot be written.
Result<int> copy_package(const std::string& folder);

struct InjectOptions {
  std::string engine;                 ///< docker | podman | bwrap | apptainer | compose | oci
  std::string bundle;                 ///< with oci: a folder with config.json, or such a file
  std::vector<std::string> services;  ///< with compose; none: all
  bool without_cdi = false;
  RunOptions run;
};
/// Runs somebody else's command that starts a container, under a limit; with oci, puts one into a configuration.
Result<int> inject(const Session& session, const InjectOptions& options);

struct SnippetOptions {
  std::string kind, name;  ///< of engine/snippet.hpp; the unit, the user or the image
  std::string node;        ///< with slurm: the configuration of Slurm for this machine, by that name
  int instances = 1;
  RunOptions run;
};
/// What goes into somebody else's configuration file.
Result<int> snippet(const Session& session, const SnippetOptions& options);

struct JupyterOptions {
  std::string action;  ///< install | list | uninstall
  std::string kernel;  ///< with uninstall
  std::string name;    ///< of a new kernel
  std::string limit, display_name, prefix, python = "python3";
  bool user = false, sys_prefix = false;
  std::vector<std::string> run_options;
};
/// Has the module ration_jupyter of that Python do it. E1712: it is not there.
Result<int> jupyter(const Session& session, const JupyterOptions& options);

struct Arguments;
/// Starts `ration run` again in a control group of its own. E1709: there is no systemd.
Result<int> run_in_scope(const Arguments& typed);

struct ContainerHookOptions {
  std::string action, device;  ///< start | stop; tenant=nlp, gpu=0.2, limit=4GiB-gpu0
};
/// The runtime's state of the container stands on standard input.
Result<int> container_hook(const Session& session, const ContainerHookOptions& options);

struct JobHookOptions {
  std::string action, job;         ///< prepare | start | enter | summary | stop
  std::vector<std::string> facts;  ///< NAME=VALUE
};
/// What Slurm's plugin runs as root: in the keeper of a job, in each of its tasks, and after it has ended.
Result<int> job_hook(const Session& session, const JobHookOptions& options);

struct DemoOptions {
  std::string scenario = "demo";  ///< a name, or a file
  std::string length;             ///< --for
  bool keep = false;              ///< until ^C, on a terminal or not
  double speed = 1;
  unsigned seed = 1;
};
Result<int> demo(const Session& session, const DemoOptions& options);

Result<int> help(const CLI::App& app, const std::vector<std::string>& topic);
/// The script for a shell.
Result<int> completion(const std::string& shell);
/// What the last of the words after `ration` can be, one a line, a tab before what it means. The script asks.
Result<int> candidates(const Session& session, const CLI::App& app, const std::vector<std::string>& words);
/// Writes the manual pages of all verbs and topics into a folder.
Result<int> manual(const CLI::App& app, const std::string& folder);

}  // namespace ration::cli
