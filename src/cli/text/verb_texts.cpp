#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "cli/text/reference.hpp"

namespace ration::cli {

const std::vector<VerbText>& verb_texts() {
  static const std::vector<VerbText> all{
      {"run",
       Task::kRun,
       kSim | kSocket,
       "*",
       "run a program under a GPU memory limit",
       "[OPTIONS] -- PROGRAM [ARGUMENTS]",
       "Starts a program under a limit. Together, the program and all processes that it starts can never exceed the "
       "limit. The program needs no change and sees the limit as the size of the GPU. Output, exit code, "
       "signals, standard input and terminal are as without ration; SIGTERM and SIGHUP also reach every process "
       "that the program started. Without --gpu the program gets the GPUs in CUDA_VISIBLE_DEVICES, else all GPUs of "
       "--sim, else the GPU with the most room. --wait and ration fits choose GPUs in the same way. Works without "
       "root and without a daemon.",
       {{"ration run --limit 4GiB -- python train.py", "limit a training run to 4 GiB"},
        {"ration run --limit 50% --guarantee 2GiB --gpu auto -- ./a.out",
         "run a program on the GPU with the most free memory"},
        {"ration run --slice 0.2 -- python serve.py", "run a program inside a slice made by ration split"},
        {"ration run --limit 4GiB --on-deny wait:30s -- python train.py", "wait for memory instead of failing"},
        {"ration run --retry 2 --retry-limit +25% --limit 6GiB -- python x.py",
         "start the program again with a larger limit if it fails after a denial"},
        {"ration run --limit 6GiB --tensorboard runs -- python train.py", "show the program's memory in TensorBoard"},
        {"ration run --sim=T4:16GiB --limit 3GiB -- ration-workload grab", "try a limit without a GPU"}}},
      {"inject",
       Task::kRun,
       kSim | kSocket,
       "*",
       "start a container under a GPU memory limit",
       "ENGINE [BUNDLE] [OPTIONS] [-- ARGUMENTS OF THE ENGINE]",
       "Runs docker, podman, bwrap or apptainer with the words after --, and adds the options that put the container "
       "under the limit. Docker and Podman get a device of the Container Device Interface (CDI); this needs a running "
       "daemon. Both engines also accept this device without ration inject: --device ration.sh/tenant=nlp. bwrap, "
       "apptainer and engines without CDI get mounts, which need no daemon. compose runs docker compose with one more "
       "file. This file adds the device to every service, or only to the services in --service. oci changes "
       "config.json of a BUNDLE in the same way as the device changes a container, for runc, crun, youki and ctr run "
       "--config; a second run replaces these changes. --dry-run prints the command, the file or the configuration.",
       {{"ration inject docker --limit 4GiB -- run --rm --gpus all IMAGE", "a container of at most 4 GiB"},
        {"ration inject podman --tenant nlp -- run --rm IMAGE", "a container under the limit of a tenant"},
        {"ration inject bwrap --limit 4GiB -- --bind / / --dev-bind /dev /dev -- python train.py", "a sandbox"},
        {"ration inject compose --limit 4GiB --service train -- -f compose.yaml up", "a service of a compose file"},
        {"ration inject oci /bundles/train --limit 4GiB", "a bundle that runc or crun starts"},
        {"ration inject --dry-run docker --slice 0.2 -- run IMAGE", "print the command that would run"}}},
      {"snippet",
       Task::kRun,
       kSim | kSocket,
       "",
       "print configuration that puts other software under a limit",
       "KIND [NAME] [OPTIONS] [-- COMMAND]",
       "Prints a file or a command that puts something under a limit, and a command that checks the limit. KIND is "
       "what gets the limit: a container (docker, compose), a service (systemd), all programs of a user "
       "(systemd-user), a job (slurm), notebook servers (jupyterhub) or the instances of a model server "
       "(tf-serving, triton, vllm). NAME is the image, the unit or the user.",
       {{"ration snippet compose nlp:2 --tenant nlp", "a service of a compose file"},
        {"ration snippet systemd train.service --limit 8GiB -- /usr/bin/train --all", "a drop-in for a unit"},
        {"ration snippet systemd-user alice --limit 8GiB", "all programs that alice's user manager starts"},
        {"ration snippet slurm --node n1", "Slurm's configuration for this machine"},
        {"ration snippet slurm --limit 8GiB -- python3 train.py > job.sh", "a script for sbatch"},
        {"ration snippet vllm --limit 20GiB --instances 2", "the flags of two servers on one limit"}}},
      {"jupyter",
       Task::kRun,
       0,
       "install uninstall",
       "put notebooks under a GPU memory limit",
       "install|list|uninstall [KERNEL] [OPTIONS] [-- OPTIONS OF RATION RUN]",
       "install makes a kernel, such as \"Python 3 \xc2\xb7 4 GiB GPU\", that JupyterLab, Notebook and VS Code offer. "
       "Each notebook that uses this kernel is a workload under the limit. The Python that has Jupyter must also have "
       "the module ration_jupyter. The words after -- are further options of ration run. For JupyterHub see ration "
       "docs notebooks.",
       {{"ration jupyter install --limit 4GiB --user", "a kernel of at most 4 GiB"},
        {"ration jupyter install --limit 50% --user -- --on-deny wait:30s", "a kernel that waits for memory"},
        {"ration jupyter list", "the kernels that are installed"},
        {"ration jupyter uninstall ration-4gib", "remove a kernel"}}},
      {"ps",
       Task::kLook,
       kSim | kSocket,
       "",
       "show who uses how much memory",
       "[OPTIONS]",
       "Shows one line for each GPU, then every workload under a limit and every process without one. With --by "
       "tenant, a row has the number of the tenant's workloads on that GPU, what they use together, the tenant's own "
       "limit, and the sum of their peaks.",
       {{"ration ps", "a table"},
        {"ration ps nlp", "one workload"},
        {"ration ps -w --sort=-used", "the table, refreshed every 2 s, the largest workload first"},
        {"ration ps --by tenant", "a row for each tenant"},
        {"ration ps -o json", "schema ration.ps/1"},
        {"ration ps --gpu 0 -o csv", "one GPU, for a spreadsheet"}}},
      {"top",
       Task::kLook,
       kSim | kSocket,
       "",
       "show who uses how much memory, live",
       "[OPTIONS]",
       "Shows every GPU with its tenants, every workload with its last ten minutes, and the latest events; the key "
       "? lists the keys. The numbers come from the daemon. Without a daemon, top itself reads the numbers each "
       "second and can change nothing.",
       {{"ration top", "q ends it"},
        {"ration top --once", "one frame as text"},
        {"ration top --filter 'used>4GiB & denied>0'", "some of the workloads"},
        {"ration top -o json", "schema ration.top/1: the daemon's snapshot"}}},
      {"dashboard",
       Task::kLook,
       kSim | kSocket | kDaemon,
       "",
       "print a link to the daemon's dashboard",
       "[OPTIONS]",
       "Prints a link that works once, within an hour. The browser that opens the link gets an operator's rights. "
       "Root, the daemon's user and members of the group ration may ask for a link. Everybody else can open the "
       "daemon's address without a token, and then sees only the totals of each GPU. With anonymous = \"all\" under "
       "[http] in ration.toml, everybody sees more.",
       {{"ration dashboard", "print the link"},
        {"xdg-open $(ration dashboard)", "open the dashboard in a browser on this machine"}}},
      {"explain",
       Task::kLook,
       kSim | kSocket,
       "",
       "show where the memory is, to the last byte",
       "[PID | WORKLOAD | TENANT] [OPTIONS]",
       "Divides the memory of a process, a workload, a tenant or a whole GPU into allocations, pools, CUDA contexts "
       "and a rest that is not explained.",
       {{"ration explain 4411", "one process"},
        {"ration explain train", "one workload"},
        {"ration explain --tenant nlp", "all workloads of a tenant"},
        {"ration explain --gpu 0", "one device"}}},
      {"why",
       Task::kLook,
       kSim | kSocket,
       "",
       "explain one denial, event or wait",
       "[NUMBER | WORKLOAD]",
       "For a denial, says what was denied, to which workload, why, and what to type. For another event, says what "
       "led to this event. For a place in the queue, says what the place waits for. A denial has a number like "
       "d-RUN-NUMBER, a place in the queue has a number like q-NUMBER, and ration events prints the numbers of "
       "events.",
       {{"ration why", "the newest denial"},
        {"ration why nlp", "the newest denial of a workload"},
        {"ration why d-17-3", "the third denial of run 17"},
        {"ration why 42", "event 42: a resize, a trim, a suspension"},
        {"ration why q-5", "why a run in the queue has not started"}}},
      {"split",
       Task::kShare,
       kSim | kSocket,
       "*",
       "cut a GPU into slices",
       "[GPU] [OPTIONS]",
       "A slice is a named, reserved share of a GPU's memory. ration run --slice starts a program in a slice. "
       "Without options, split shows the slices. Slices divide memory only; compute is still shared.",
       {{"ration split 0 --into 4", "four equal slices: 0.0 to 0.3"},
        {"ration split 0 --sizes 6GiB,6GiB,rest --names a,b,c", "slices by size"},
        {"ration split 0 --ratio 40:60", "slices by ratio"},
        {"ration split 0 --off", "remove the slices"}}},
      {"whatif",
       Task::kPlan,
       kSim,
       "",
       "say what would fit, from recordings or sizes; change nothing",
       "RECORDING|NAME=SIZE... [OPTIONS] [--run [-- PROGRAM [ARGUMENTS]]]",
       "For a recording, prints the smallest limit that is enough: under this limit, no request that succeeded in the "
       "recorded run is denied. With --limit SIZE, also prints the first request that a limit of SIZE denies. A "
       "recording of tensors (made with --deep) is also tried under other allocators. --run answers what no recording "
       "can answer: it runs the program again under the limit, on a simulated GPU. --with asks about two recorded "
       "runs on one GPU; --gpu without --with says how many copies of the run fit on one GPU. For sizes, "
       "NAME=GUARANTEE[:LIMIT][*COUNT], prints whether these programs fit on the GPUs, and on which GPU each program "
       "would run. Also prints which limits cannot be reached because of the guarantees of others. You can mix "
       "recordings and sizes. Without --gpu, whatif uses the GPUs of this machine, and leaves out the memory that is "
       "promised already. A RECORDING is a file of ration record or an allocation history (CSV). Each answer has a "
       "grade: exact (added up from the recording), model (of an allocator, with its measured error), run (from "
       "running the program), or unknown (with the reason). Ends with exit code 4 if something is denied or does not "
       "fit.",
       {{"ration whatif train.rec", "the smallest limit"},
        {"ration whatif train.rec --limit 6GiB", "the first request that a limit denies"},
        {"ration whatif history.csv --allocator pytorch:expandable_segments:True", "the same run with another setting"},
        {"ration whatif train.rec --limit 6GiB --run", "the program itself under that limit, on a simulated GPU"},
        {"ration whatif serve.rec --with train.rec --gpu 12GiB", "two runs on one GPU, whenever the second starts"},
        {"ration whatif nlp=16GiB:30GiB jup=4GiB*6 --gpu A100-40:2", "sizes of seven programs on two GPUs"},
        {"ration whatif jup=2GiB*4 train.rec", "a recorded run beside four others on this machine"}}},
      {"set",
       Task::kShare,
       kSim | kSocket,
       "*",
       "change limits of something running",
       "NAME [OPTIONS]",
       "The next allocation sees the new limit. A limit below what the workload holds takes no memory away: every "
       "further request is denied until the workload holds less than its limit.",
       {{"ration set nlp --limit 20GiB", "a new limit"},
        {"ration set nlp --limit +1GiB", "1 GiB more than now; -1GiB means 1 GiB less"},
        {"ration set nlp --limit 8GiB --yes", "a limit below what the workload holds, without confirmation"},
        {"ration set --schedule 'night=22:00-07:00:train=90%,serve=10%'", "other limits for tenants at night"}}},
      {"fits",
       Task::kPlan,
       kSim | kSocket,
       "",
       "check by exit code whether a size fits now",
       "SIZE|--recording RECORDING [OPTIONS]",
       "Prints the GPUs that ration run would give a program now. Exits with 0 if the size fits on each of these "
       "GPUs, else with 4. Without --gpu, these GPUs are the GPUs in CUDA_VISIBLE_DEVICES, else all GPUs of --sim, "
       "else the GPU with the most room. Memory that is guaranteed to your tenant counts as available; memory that "
       "is promised to others does not.",
       {{"ration fits 12GiB && echo go", "a condition in a script"},
        {"ration fits 12GiB --tenant nlp", "for a workload of tenant nlp"}}},
      {"doctor",
       Task::kMachine,
       kSim | kSocket,
       "",
       "check this machine",
       "[OPTIONS]",
       "Prints one line for each check. Ends with exit code 1 if a check fails.",
       {{"ration doctor", "all checks"},
        {"ration doctor --probe", "also try to exceed a limit"},
        {"ration doctor --try-suspend",
         "also move a test program's memory to the host and back; ration suspend requires a successful test"},
        {"ration doctor --sim=T4 --probe", "on a simulated GPU"}}},
      {"serve",
       Task::kMachine,
       kSim | kSocket,
       "*",
       "run the daemon in the foreground",
       "[OPTIONS]",
       "Watches every workload, keeps the accounts, enforces guarantees, and serves the dashboard, an HTTP "
       "interface and /metrics. Programs keep their limits when the daemon ends, and the daemon finds these "
       "programs again when it starts. rationd is the same program as ration serve.",
       {{"ration serve", "a daemon of this user or, started by root, of the machine"},
        {"ration serve --sim=A100-40:2", "a daemon of a simulated node"},
        {"ration serve --listen 127.0.0.1:0", "HTTP on any free port"}}},
      {"service",
       Task::kMachine,
       0,
       "install uninstall start stop restart",
       "run the daemon under systemd",
       "install | uninstall | start | stop | restart | status | print [OPTIONS]",
       "Writes and controls a hardened unit of systemd. Without root, or with --user, the unit is the user's own.",
       {{"sudo ration service install --now", "start the daemon of the machine, now and at every boot"},
        {"ration service install --user --now", "start a daemon of this user"},
        {"ration service print", "show the unit and write nothing"}}},
      {"events",
       Task::kLook,
       kSim | kSocket | kDaemon,
       "",
       "show what happened: denials, changes, alerts",
       "[OPTIONS]",
       "Prints the daemon's events, the oldest first. With -f, ration events also prints further events as they "
       "happen, and misses no event when the daemon is started again.",
       {{"ration events -f", "follow new events"},
        {"ration events --type denied,violation --tenant nlp", "events of two types, of one tenant"},
        {"ration events --since 10m", "the last ten minutes"},
        {"ration events -f -o json", "one JSON object per line"}}},
      {"trim",
       Task::kShare,
       kSim | kSocket | kDaemon,
       "*",
       "ask workloads to give unused memory back",
       "[WORKLOAD] [OPTIONS]",
       "Asks programs to give back memory that they hold but do not use. Pools of the driver (cuda_malloc_async of "
       "TensorFlow, JAX and PyTorch) give back their unused memory at the program's next call that frees memory or "
       "waits for the GPU. ration's library gives back the unused memory of its own pool. trim does not empty the "
       "cache of a framework. Two other ways to get such memory: under a lower limit (ration set), PyTorch empties "
       "its cache as soon as a request is denied; ration suspend moves all memory of a workload to the host.",
       {{"ration trim nlp", "one workload"},
        {"ration trim --idle 30m --dry-run", "list the workloads that ration would ask to give memory back"},
        {"ration trim --idle 30m", "all workloads that were idle for 30 minutes"}}},
      {"stop",
       Task::kRun,
       kSim | kSocket,
       "*",
       "end a workload",
       "WORKLOAD … [OPTIONS]",
       "Sends SIGTERM to the processes of a workload, and SIGKILL to the processes that still run after the time of "
       "--grace. Ends only programs that ration run started. Their owner and root may end them and, while a daemon of "
       "root runs, the members of group ration. Asks for confirmation on a terminal; without a terminal, stop needs "
       "--yes.",
       {{"ration stop notebook", "ask for confirmation, then end a workload"},
        {"ration stop notebook --yes --grace 60s", "end a workload from a script, with a minute to save its work"},
        {"ration stop train serve", "two workloads"},
        {"ration stop q-5", "remove a run that waits from the queue"},
        {"ration stop notebook --dry-run", "list the processes that would end"}}},
      {"suspend",
       Task::kShare,
       kSim | kSocket | kDaemon,
       "*",
       "move a workload's GPU memory to the host",
       "WORKLOAD [OPTIONS]",
       "Moves the memory with functions of the driver (570 and newer). The program continues to run until it next "
       "calls the driver; it then waits until the workload is resumed (ration resume). Policies in ration.toml suspend "
       "idle workloads in the "
       "same way, and resume them when they become active again.",
       {{"ration suspend notebook", "free the workload's GPU memory for others"}}},
      {"resume",
       Task::kShare,
       kSim | kSocket | kDaemon,
       "*",
       "bring a suspended workload back",
       "WORKLOAD [OPTIONS]",
       "Waits in the daemon's queue until the GPU has room for the workload's memory. Without a daemon, tries once.",
       {{"ration resume notebook", ""}}},
      {"report",
       Task::kAccount,
       kSim | kSocket | kDaemon,
       "close",
       "report usage and cost of any period",
       "[close MONTH] [OPTIONS]",
       "Shows how much memory each tenant or user held, and for how long. There are also rows for memory that was "
       "idle, ungoverned or not watched, so that all rows add up to the capacity multiplied by the recorded time. A "
       "note says how much of the period lies before the first record. A closed month never changes.",
       {{"ration report --last", "the newest run, with notes; with -o md, a page in Markdown"},
        {"ration report --slurm 4711", "a job of Slurm"},
        {"ration report --by user --window lastmonth --price 0.031 -o md", "a bill"},
        {"ration report --window 2026-01 -o focus > january.csv", "a file for chargeback"},
        {"ration report close 2026-01", "seal a month"}}},
      {"export",
       Task::kLook,
       0,
       "",
       "write a recording in the format of another program",
       "FILE --format FORMAT [-o PATH]",
       "Converts a recording of a workload's memory to another program's format: xspace for the page memory_profile "
       "of TensorBoard's profile plugin; perfetto and chrome for ui.perfetto.dev; pprof for go tool pprof; "
       "memory_viz for pytorch.org/memory_viz; heaptrack for heaptrack_gui; speedscope for speedscope.app; html for "
       "any browser; csv for spreadsheets and scripts. Every format shows the same amount of held memory at every "
       "moment, and the same peak. If PATH is a folder, a file with the recording's name is written there; with "
       "xspace, PATH is the folder that tensorboard --logdir reads.",
       {{"ration export train.rec --format xspace -o runs/", "a page of TensorBoard"},
        {"ration export train.rec --format perfetto", "a trace for ui.perfetto.dev"}}},
      {"recommend",
       Task::kAccount,
       kSim | kSocket | kDaemon,
       "",
       "suggest a limit for a workload",
       "WORKLOAD|RECORDING... [OPTIONS]",
       "Suggests a limit and a guarantee from the peaks and the denied requests of past runs, with reasons. Also "
       "shows which of these runs would have been denied memory under this limit. The runs are recordings, or past "
       "runs of a workload that the daemon has seen.",
       {{"ration recommend nlp/train", ""}, {"ration recommend monday.rec tuesday.rec", "from recordings"}}},
      {"record",
       Task::kRun,
       kSim | kSocket,
       "*",
       "record what a program does with GPU memory",
       "-o FILE [OPTIONS] [-- PROGRAM [ARGUMENTS]]",
       "Starts a program under a limit, or without one, as ration run does, and records every request for GPU memory "
       "from the program and from the processes that it starts. The last line of the output says what was recorded and "
       "what to type next. Without a program, makes FILE from the parts that ration run left behind when it was "
       "killed.",
       {{"ration record -o train.rec -- python train.py", "record a training run"},
        {"ration record -o train.rec --sim=T4:16GiB -- ration-workload grow", "try a recording without a GPU"}}},
      {"inspect",
       Task::kAccount,
       0,
       "",
       "show how a recorded program used memory",
       "FILE [OPTIONS]",
       "Shows what a recording of ration run --record contains: the peak, and what the peak consisted of; blocks that "
       "were never freed; the sizes and lifetimes of blocks; the program's queries of the free memory, with the "
       "answers; and denied requests, with the memory that was held at that moment. Also reads a recording "
       "that is still being written, and a recording whose program or ration run was killed. -o csv prints the held "
       "memory over time or, with --at, the memory that was held at that time. Each process and use has a row of its "
       "own. -o html prints a page with a timeline, a flame graph of the peak and a map by address; the page needs no "
       "network.",
       {{"ration run --limit 6GiB --record train.rec -- python train.py", "record"},
        {"ration inspect train.rec", "the peak"},
        {"ration inspect train.rec --at 90s -o json", "what was held after 90 seconds, as JSON"},
        {"ration inspect before.rec --diff after.rec", "what changed from one run to another"},
        {"ration inspect train.rec -o html > train.html", "a page for a browser"}}},
      {"import",
       Task::kAccount,
       0,
       "",
       "make a recording from a file of another program",
       "FILE [-o FILE]",
       "Makes a recording from a snapshot of PyTorch's memory (torch.cuda.memory._dump_snapshot), a dump of "
       "TensorFlow's allocator (TF_BFC_MEMORY_DUMP), or an allocation history (CSV, as ration export writes it; "
       "share/ration/traces has examples). A pickle is read as data: no code in the pickle is executed. inspect, "
       "whatif and export also accept such a file directly.",
       {{"ration import memory.pickle -o train.rec", "the history of PyTorch's allocator"},
        {"ration inspect train.rec", "its peak"}}},
      {"env",
       Task::kRun,
       kSim,
       "",
       "print the variables that ration run would set",
       "[OPTIONS]",
       "Prints lines for a shell on standard output; comments list the variables that are not changed.",
       {{"ration env --limit 4GiB", ""}}},
      {"sim",
       Task::kRun,
       kSim,
       "",
       "print variables that give a program a simulated GPU, without a limit",
       "env [OPTIONS] [-- PROGRAM]",
       "Prints commands for a shell. After these commands, programs load the simulated driver in place of NVIDIA's, "
       "and a simulated CUDA runtime of the version that PROGRAM's environment has.",
       {{"eval \"$(ration sim env --sim=T4:16GiB)\"", "simulate a GPU for another launcher"},
        {"ration sim env -- .venv/bin/python", "use the CUDA version of that Python"}}},
      {"config",
       Task::kMachine,
       kSim | kSocket,
       "init reload",
       "make, show and check the configuration",
       "init [FILE] | validate [FILE] | print | path | reload [OPTIONS]",
       "init writes a file that explains every key and sets no key. print shows each value in use, with the file and "
       "line that set the value. validate lists every mistake with line and column, and exits with 2 if there is a "
       "mistake. It also lists users, groups and files that this machine does not have, and tenants that get no "
       "workload. With FILE, validate checks only that file. path lists the files that are read. reload makes the "
       "daemon read these files again and shows what changed. If a file has a mistake, the daemon rejects the whole "
       "file and the old values stay.",
       {{"ration config init", "write a file for this user; as root, for the machine"},
        {"ration config print", "show each value and its origin"},
        {"ration config validate new.toml && sudo install -D -m 644 new.toml /etc/ration/ration.toml",
         "check a file before it is used"},
        {"ration config reload", "make the daemon use the changed files"}}},
      {"demo",
       Task::kRun,
       0,
       "*",
       "see ration work on simulated GPUs",
       "[OPTIONS]",
       "Starts a daemon on simulated GPUs, a dashboard on 127.0.0.1:7077 (or the next free port), and real programs "
       "of several tenants under limits. You see denials with their reasons, changing limits and idle "
       "programs. Needs no GPU, no root and no network, changes nothing on this machine and leaves nothing behind. "
       "Other verbs reach the demo with --sim=demo; if several demos run, each prints its own name, such as "
       "--sim=demo:4711. A scenario is a TOML file with [scenario], [[program]], [[command]], [[moment]] and the "
       "tables of ration.toml; share/ration/scenarios has the scenarios that come with ration. The scenarios slurm "
       "and kubernetes are programs. They need root and the installed software: slurm uses a real Slurm with two "
       "nodes, kubernetes uses a real Kubernetes with one node.",
       {{"ration demo", "run until Ctrl-C"},
        {"ration demo --scenario jupyterhub --speed 2", "twelve notebooks on one GPU, twice as fast"},
        {"ration demo --scenario slurm", "jobs of a real Slurm; needs root"},
        {"ration demo --for 20s | cat", "20 seconds without a terminal"},
        {"ration set train --limit 20GiB --sim=demo", "change a limit in the demo from another terminal"}}},
      {"help",
       Task::kHelp,
       0,
       "",
       "list verbs and topics, or explain one",
       "[VERB | TOPIC | ERROR]",
       "Explains a verb, a topic or an error. Without an argument, lists verbs and topics.",
       {{"ration help units", ""},
        {"ration help E1104", ""},
        {"ration help schema ps", "the JSON schema of ration ps -o json"}}},
      {"docs",
       Task::kHelp,
       0,
       "",
       "print where the manual is",
       "[PAGE]",
       "Prints the path of a page of the manual, for a browser; with --text, prints the page itself. Without PAGE, "
       "takes the first page, which leads to all others. PAGE can also be the path of a page as the README names it, "
       "such as docs/tensorflow.md.",
       {{"xdg-open $(ration docs tensorflow)", "open a page on this machine"},
        {"ration docs --text out-of-memory | less", "read a page on a terminal"},
        {"ration docs --list", "names and titles of all pages"},
        {"ration docs scenarios/kubernetes", ""},
        {"ration docs zh/tensorflow", "a page in Chinese"}}},
      {"version",
       Task::kHelp,
       0,
       "",
       "print the version",
       "",
       "Prints the version, as ration --version does.",
       {{"ration version", ""}}},
      {"completion",
       Task::kHelp,
       0,
       "",
       "print a script for shell completion",
       "bash | zsh | fish",
       "Prints a script with which the shell completes verbs, options and names.",
       {{"ration completion bash > ~/.local/share/bash-completion/completions/ration", ""}}}};
  return all;
}

const VerbText& verb_text(const std::string& name) {
  for (const VerbText& text : verb_texts()) {
    if (name == text.name) return text;
  }
  throw std::logic_error("no text for verb " + name);
}

bool changes_state(const VerbText& verb, const std::string& action) {
  const std::string_view changes = verb.changes;
  if (changes == "*") return true;
  for (std::size_t at = 0; at < changes.size() && !action.empty();) {
    const std::size_t end = std::min(changes.find(' ', at), changes.size());
    if (changes.substr(at, end - at) == action) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace ration::cli
