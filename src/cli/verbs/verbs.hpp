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
/// Prints the variables that `ration run` would set, for a shell (`ration env`).
Result<int> env(const Session& session, RunOptions options);
/// Makes a book with every GPU for the program that started this one, and prints the variables that the program has to
/// set, as NAME=VALUE with a zero byte after each (`ration activate`). Fails with E1446.
Result<int> activate(const Session& session, RunOptions options);

struct SimulationOptions {
  std::string action;  ///< env
  std::string cuda;    ///< versions of CUDA, as in RunOptions::simulated_cuda
};
/// Prints the variables that put a program on the simulated node without a limit, for a shell (`ration sim env`). An
/// empty `program` stands for any program.
Result<int> simulation(const Session& session, const SimulationOptions& options,
                       const std::vector<std::string>& program);

struct InspectOptions {
  std::string file;
  std::string at;     ///< time since the recording began; empty for the peak
  std::string other;  ///< a recording to compare with; empty for none
};
Result<int> inspect(const Session& session, const InspectOptions& options);

struct PsOptions {
  std::string name, gpu, tenant, user;  ///< values that rows must have; empty for all rows
  std::string filter;                   ///< filter of rows/filter.hpp; empty for all rows
  std::string sort;                     ///< order, such as `-used,name`; empty for the order of the starts
  std::string by;                       ///< `tenant` for the sums of each tenant; empty for a row a workload
  std::string every;                    ///< interval of --watch; empty to print once
};
Result<int> ps(const Session& session, const PsOptions& options);

struct ExplainOptions {
  std::string target, gpu, tenant;  ///< at most one is set; without any, GPU 0 is explained
};
Result<int> explain(const Session& session, const ExplainOptions& options);
/// Explains a denial, an event or a place in the queue; the newest denial if `what` is empty.
Result<int> why(const Session& session, const std::string& what);

struct SetOptions {
  std::string name, limit, host_limit, guarantee, gpu;
  std::string schedule;  ///< value of --schedule, which excludes the other options
};
Result<int> set(const Session& session, const SetOptions& options);
/// Sets or ends a schedule; prints all schedules if `text` is empty.
Result<int> schedule(const Session& session, const std::string& text);

struct TrimOptions {
  std::string name, idle;  ///< `name`: one workload; `idle`: shortest idle time of workloads
};
Result<int> trim(const Session& session, const TrimOptions& options);
Result<int> suspend(const Session& session, const std::string& name);
Result<int> resume(const Session& session, const std::string& name);

struct ServeOptions {
  std::string state, listen, configuration;
  bool listen_given = false;
};
/// Runs the daemon in the foreground until a signal ends it.
Result<int> serve(const Session& session, const ServeOptions& options);

struct ServiceOptions {
  std::string action;  ///< install | uninstall | start | stop | restart | status | print
  bool user = false, now = false;
};
Result<int> service(const Session& session, const ServiceOptions& options);

struct EventsOptions {
  bool follow = false;
  std::string since;         ///< number of an event, or a time such as 10m
  std::optional<int> lines;  ///< most lines; if absent, 50, or all events since the given time
  std::vector<std::string> types, tenants, workloads;
};
Result<int> events(const Session& session, const EventsOptions& options);

struct TopOptions {
  bool once = false, ascii = false, read_only = false;
  std::string filter, sort;
};
Result<int> top(const Session& session, const TopOptions& options);

struct ReportOptions {
  std::string action, period;  ///< `close` and its month; empty to show a report
  bool last = false;
  std::string workload;  ///< with `last`, the workload of the newest run; empty for any
  std::string by, window, basis, price, share_idle;
  std::string slurm_job;  ///< job of Slurm to report in place of a window
};
Result<int> report(const Session& session, const ReportOptions& options);
struct StopOptions {
  std::vector<std::string> names;  ///< workloads, or places in the queue: `q-5`
  std::string grace = "10s";
};
/// Ends the workloads one after the other, up to the first that it cannot end.
Result<int> stop(const Session& session, const StopOptions& options);
/// Prints a link to the daemon's dashboard that works once.
Result<int> dashboard(const Session& session);
/// Suggests a limit. `words` is the name of a workload, or files of recordings of one program.
Result<int> recommend(const Session& session, const std::vector<std::string>& words);
Result<int> reload(const Session& session);

struct SplitOptions {
  std::string gpu, sizes, ratio, names;
  std::optional<int> into;
  bool off = false;
};
Result<int> split(const Session& session, const SplitOptions& options);
/// Prints the slices of a GPU in one line, with who is in each and what to type; prints nothing if it has none.
void print_slices(const Session& session, int gpu, const std::string& uuid);

struct WhatIfOptions {
  std::vector<std::string> recordings;  ///< files, or programs as NAME=SIZE
  std::vector<std::string> allocators;  ///< NAME[:SETTINGS]; empty for all allocators if the recording has tensors
  std::string limit;
  std::string with;                  ///< another recording that runs beside the first
  std::vector<std::string> gpus;     ///< values of --gpu
  bool run = false;                  ///< true to run the program under the limit, on a simulated GPU
  std::vector<std::string> program;  ///< the program to run; empty for the recorded one
};
/// Answers from recordings what a program needs, and what a limit would have denied.
Result<int> whatif(const Session& session, const WhatIfOptions& options);

struct ExportOptions {
  std::string file, format;
  std::string out;  ///< file, folder, or `-` for standard output; empty to write beside the recording
};
Result<int> export_recording(const Session& session, const ExportOptions& options);

struct ImportOptions {
  std::string file;
  std::string out;  ///< file to write; empty for the name of `file` with `.rec`
};
Result<int> import_recording(const Session& session, const ImportOptions& options);

struct FitsOptions {
  std::string size, gpu;
  std::string tenant;     ///< empty for the tenant that the caller's workloads are charged to
  std::string recording;  ///< recording of a run: the smallest limit that it needs replaces `size`; empty for none
};
Result<int> fits(const Session& session, const FitsOptions& options);

struct ConfigOptions {
  std::string action;  ///< init | print | validate | path
  std::string file;
  bool force = false;
};
Result<int> config(const Session& session, const ConfigOptions& options);

struct CheckpointOptions {
  std::string action, driver_folder, lock, book;  ///< the action is suspend | resume
  std::vector<std::string> processes;             ///< processes, as node/residency/checkpoint_jobs.hpp writes them
};
Result<int> checkpoint_processes(const CheckpointOptions& options);

/// Copies the files of this package that a node needs into a folder. Fails with E1716 if it cannot be written.
Result<int> copy_package(const std::string& folder);

struct InjectOptions {
  std::string engine;                 ///< docker | podman | bwrap | apptainer | compose | oci
  std::string bundle;                 ///< with oci, a folder with config.json, or such a file
  std::vector<std::string> services;  ///< with compose, the services to limit; empty for all
  bool without_cdi = false;
  RunOptions run;
};
/// Runs a container engine so that its container is under a limit; with oci, writes the limit into a configuration.
Result<int> inject(const Session& session, const InjectOptions& options);

struct SnippetOptions {
  std::string kind, name;  ///< kind, as in adapters/containers/snippet.hpp, and the unit, the user or the image
  std::string node;        ///< with slurm, the name of this machine, to print Slurm's configuration for it
  int instances = 1;
  RunOptions run;
};
/// Prints configuration that puts other software under a limit.
Result<int> snippet(const Session& session, const SnippetOptions& options);

struct JupyterOptions {
  std::string action;  ///< install | list | uninstall
  std::string kernel;  ///< kernel to uninstall
  std::string name;    ///< name of a new kernel
  std::string limit, display_name, prefix, python = "python3";
  bool user = false, sys_prefix = false;
  std::vector<std::string> run_options;
};
/// Runs the module ration_jupyter of a Python. Fails with E1712 if that Python has no such module.
Result<int> jupyter(const Session& session, const JupyterOptions& options);

struct Arguments;
/// Starts `ration run` again in a control group of its own. Fails with E1709 without systemd.
Result<int> run_in_scope(const Arguments& typed);

struct ContainerHookOptions {
  std::string action, device;  ///< start | stop; tenant=nlp, gpu=0.2, limit=4GiB-gpu0
};
/// Performs the hook of a container, whose state the runtime writes to standard input.
Result<int> container_hook(const Session& session, const ContainerHookOptions& options);

struct JobHookOptions {
  std::string action, job;         ///< prepare | start | enter | summary | stop
  std::vector<std::string> facts;  ///< NAME=VALUE
};
/// Performs a step of Slurm's plugin, as root: in the keeper of a job, in each task of the job, and after the job's
/// end.
Result<int> job_hook(const Session& session, const JobHookOptions& options);

struct DemoOptions {
  std::string scenario = "demo";  ///< name or file of the scenario
  std::string length;             ///< value of --for
  bool keep = false;              ///< true to end at Ctrl-C alone, even without a terminal
  double speed = 1;
  unsigned seed = 1;
};
Result<int> demo(const Session& session, const DemoOptions& options);

Result<int> help(const CLI::App& app, const std::vector<std::string>& topic);

struct DocsOptions {
  std::vector<std::string> page;  ///< the words of its name; empty: the first page
  bool text = false;
  bool list = false;
};
/// Prints the path of a page of the manual; with `text` the page itself, with `list` the names and titles of all pages.
/// Fails with E1406 or E1422.
Result<int> docs(const DocsOptions& options);

/// Prints the completion script for a shell.
Result<int> completion(const std::string& shell);
/// Prints the values that the last of the words after `ration` can have, one a line, each with a tab and its meaning.
/// Called by the completion scripts.
Result<int> candidates(const Session& session, const CLI::App& app, const std::vector<std::string>& words);
/// Writes the manual pages of all verbs and topics into a folder.
Result<int> manual(const CLI::App& app, const std::string& folder);

}  // namespace ration::cli
