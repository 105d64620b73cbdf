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
       "Starts the program, and everything that it starts, so that together they can never hold more memory of the GPU "
       "than the limit. "
       "The program is not changed and sees the limit as the device's total. Its output, exit code, signals, standard "
       "input and terminal are its own. Asked to end (SIGTERM, SIGHUP), it ends with every process that it started. "
       "Without --gpu it gets the GPUs that CUDA_VISIBLE_DEVICES names, else all that --sim names, else the one with "
       "the most room; so do --wait and ration fits. Works without root and without a daemon.",
       {{"ration run --limit 4GiB -- python train.py", "hold a training run to 4 GiB"},
        {"ration run --limit 50% --guarantee 2GiB --gpu auto -- ./a.out", "on the GPU with the most free memory"},
        {"ration run --slice 0.2 -- python serve.py", "inside a slice made by ration split"},
        {"ration run --limit 4GiB --on-deny wait:30s -- python train.py", "wait for memory instead of failing"},
        {"ration run --retry 2 --retry-limit +25% --limit 6GiB -- python x.py", "again with more if it was denied"},
        {"ration run --sim=T4:16GiB --limit 3GiB -- ration-workload grab", "without any GPU"}}},
      {"inject",
       Task::kRun,
       kSim | kSocket,
       "*",
       "start a container under a GPU memory limit",
       "ENGINE [BUNDLE] [OPTIONS] [-- ARGUMENTS OF THE ENGINE]",
       "Runs docker, podman, bwrap or apptainer with what follows --, and with what puts the container under the limit "
       "typed into it. Docker and Podman get a device of the Container Device Interface, which may also be typed, or "
       "written into a file, without this command: --device ration.sh/tenant=nlp. It needs the daemon. bwrap, "
       "apptainer "
       "and engines without CDI get mounts, and work without one. compose runs docker compose with a further file, "
       "which gives the device to every service, or to each --service. oci writes the same that a device is into "
       "config.json of a BUNDLE, for runc, crun, youki and ctr run --config; a second time replaces it. --dry-run "
       "prints the command, the file or the configuration.",
       {{"ration inject docker --limit 4GiB -- run --rm --gpus all IMAGE", "a container of at most 4 GiB"},
        {"ration inject podman --tenant nlp -- run --rm IMAGE", "under the limit of a tenant"},
        {"ration inject bwrap --limit 4GiB -- --bind / / --dev-bind /dev /dev -- python train.py", "a sandbox"},
        {"ration inject compose --limit 4GiB --service train -- -f compose.yaml up", "a service of a compose file"},
        {"ration inject oci /bundles/train --limit 4GiB", "a bundle that runc or crun starts"},
        {"ration inject --dry-run docker --slice 0.2 -- run IMAGE", "what would be run"}}},
      {"snippet",
       Task::kRun,
       kSim | kSocket,
       "",
       "print what goes into somebody else's configuration",
       "KIND [NAME] [OPTIONS] [-- COMMAND]",
       "Prints a file, or a command, that puts a container (docker, compose), a service (systemd), everything of a "
       "user "
       "(systemd-user), a job (slurm), notebook servers (jupyterhub) or the instances of a model server (tf-serving, "
       "triton, vllm) "
       "under "
       "a limit, and the check that shows that it works. NAME is the image, the unit or the user.",
       {{"ration snippet compose nlp:2 --tenant nlp", "a service of a compose file"},
        {"ration snippet systemd train.service --limit 8GiB -- /usr/bin/train --all", "a drop-in for a unit"},
        {"ration snippet systemd-user alice --limit 8GiB", "all that alice's user manager starts"},
        {"ration snippet slurm --node n1", "Slurm's configuration for this machine"},
        {"ration snippet slurm --limit 8GiB -- python3 train.py > job.sh", "a script for sbatch"},
        {"ration snippet vllm --limit 20GiB --instances 2", "the flags of two servers on one limit"}}},
      {"jupyter",
       Task::kRun,
       0,
       "install uninstall",
       "notebooks under a GPU memory limit",
       "install|list|uninstall [KERNEL] [OPTIONS] [-- OPTIONS OF RATION RUN]",
       "install makes a kernel, such as \"Python 3 \xc2\xb7 4 GiB GPU\", that JupyterLab, Notebook and VS Code offer: "
       "each notebook that uses it is a workload under the limit. The Python that has Jupyter does it, by the module "
       "ration_jupyter. What stands behind -- are further options of ration run. JupyterHub: "
       "docs/scenarios/notebooks.md.",
       {{"ration jupyter install --limit 4GiB --user", "a kernel of at most 4 GiB"},
        {"ration jupyter install --limit 50% --user -- --on-deny wait:30s", "that waits for memory"},
        {"ration jupyter list", "those that are installed"},
        {"ration jupyter uninstall ration-4gib", "without it again"}}},
      {"ps",
       Task::kLook,
       kSim | kSocket,
       "",
       "who uses what, once",
       "[OPTIONS]",
       "One line a GPU, then every workload under a limit and every process that is under none.",
       {{"ration ps", "a table"},
        {"ration ps nlp", "one workload"},
        {"ration ps -w --sort=-used", "again and again, the largest first"},
        {"ration ps -o json", "schema ration.ps/1"},
        {"ration ps --gpu 0 -o csv", "one GPU, for a spreadsheet"}}},
      {"top",
       Task::kLook,
       kSim | kSocket,
       "",
       "who uses what, live",
       "[OPTIONS]",
       "Every device with its tenants, every workload with its last ten minutes, and what happened last; ? shows the "
       "keys. The numbers are the daemon's; without one they are looked up each second, and nothing can be changed.",
       {{"ration top", "q ends it"},
        {"ration top --once", "one frame as text"},
        {"ration top --filter 'used>4GiB & denied>0'", "a part"},
        {"ration top -o json", "schema ration.top/1: the daemon's snapshot"}}},
      {"dashboard",
       Task::kLook,
       kSim | kSocket,
       "",
       "a link to the daemon's dashboard",
       "[OPTIONS]",
       "Prints a link that works once, within an hour, and makes an operator of the first who opens it: for root, the "
       "daemon's own user and members of group ration. Everybody else opens the daemon's address without a token and "
       "sees totals of devices; anonymous = \"all\" under [http] in ration.toml shows them more.",
       {{"ration dashboard", "of the daemon that ration service started, too"},
        {"xdg-open $(ration dashboard)", "straight to a browser, on a machine of your own"}}},
      {"explain",
       Task::kLook,
       kSim | kSocket,
       "",
       "make the numbers add up",
       "[PID | WORKLOAD | TENANT] [OPTIONS]",
       "Shows where the bytes of a process, of a workload, of a tenant or of a whole GPU are: allocations, pools, CUDA "
       "contexts, "
       "and what nobody can explain.",
       {{"ration explain 4411", "one process"},
        {"ration explain train", "one workload"},
        {"ration explain --tenant nlp", "all of a tenant"},
        {"ration explain --gpu 0", "one device"}}},
      {"why",
       Task::kLook,
       kSim | kSocket,
       "",
       "explain one denial, event or wait",
       "[NUMBER | WORKLOAD]",
       "Says what was denied, to whom, why, and what to type; of any other event what led to it; of who waits in the "
       "queue what for. Denials are numbered d-RUN-NUMBER, events as ration events shows them, places in the queue "
       "q-NUMBER.",
       {{"ration why", "the newest denial"},
        {"ration why nlp", "the newest of a workload"},
        {"ration why d-17-3", "the third denial of run 17"},
        {"ration why 42", "event 42: a resize, a trim, a suspension"},
        {"ration why q-5", "why it does not start yet"}}},
      {"split",
       Task::kShare,
       kSim | kSocket,
       "*",
       "cut a GPU into slices",
       "[GPU] [OPTIONS]",
       "A slice is a named, reserved share of a GPU's memory, entered with ration run --slice. Without options it "
       "shows the slices. Slices divide memory only; compute is still shared.",
       {{"ration split 0 --into 4", "four equal ones: 0.0 to 0.3"},
        {"ration split 0 --sizes 6GiB,6GiB,rest --names a,b,c", "by size"},
        {"ration split 0 --ratio 40:60", "by ratio"},
        {"ration split 0 --off", "whole again"}}},
      {"plan",
       Task::kPlan,
       kSim,
       "",
       "will these tenants fit? (changes nothing)",
       "--tenant NAME=GUARANTEE[:LIMIT][*COUNT] ... [OPTIONS]",
       "Puts tenants with guarantees onto GPUs and says what is left, and which limits cannot be reached beside the "
       "neighbours. Hardware is named, so no GPU is needed; without --gpu it is this machine's, less what is promised "
       "already. Exit code 4 if they do not fit, with the smallest change that would.",
       {{"ration plan --gpu A100-40:2 --tenant nlp=16GiB:30GiB --tenant jup=4GiB*6", "two cards, seven tenants"},
        {"ration plan --gpu T4 --tenant a=50%:max --tenant b=25%", "shares of a card"},
        {"ration plan --tenant jup=2GiB*8 --spread", "on this machine, side by side"}}},
      {"set",
       Task::kShare,
       kSim | kSocket,
       "*",
       "change limits of something running",
       "NAME [OPTIONS]",
       "The next allocation sees the new limit. A limit below what is held takes nothing away: more is denied until "
       "it is under.",
       {{"ration set nlp --limit 20GiB", "raise"},
        {"ration set nlp --limit +1GiB", "a GiB more than now; -1GiB: less"},
        {"ration set nlp --limit 8GiB --yes", "lower, without being asked"},
        {"ration set --schedule 'night=22:00-07:00:train=90%,serve=10%'", "other limits of tenants at night"}}},
      {"fits",
       Task::kPlan,
       kSim | kSocket,
       "",
       "can that many bytes start now? (exit code)",
       "SIZE [OPTIONS]",
       "Prints the GPUs that ration run would give a program now, and exits 0 if the size fits on each of them, else "
       "4: "
       "without --gpu those that CUDA_VISIBLE_DEVICES names, else all that --sim names, else the one with the most "
       "room. "
       "What is promised to others does not count as available.",
       {{"ration fits 12GiB && echo go", "in a script"}}},
      {"doctor",
       Task::kMachine,
       kSim | kSocket,
       "",
       "check this machine",
       "[OPTIONS]",
       "One line a check; exit code 1 if one of them fails.",
       {{"ration doctor", "all checks"},
        {"ration doctor --probe", "also really try to exceed a limit"},
        {"ration doctor --try-suspend",
         "also move a program of its own to the host and back: before that none is suspended"},
        {"ration doctor --sim=T4 --probe", "on a simulated GPU"}}},
      {"serve",
       Task::kMachine,
       kSim | kSocket,
       "*",
       "the node's daemon, in the foreground",
       "[OPTIONS]",
       "Watches every workload, keeps the accounts, enforces promises, and serves the dashboard, an HTTP interface and "
       "/metrics. Programs keep their limits when it ends, and it takes them up again when it starts. Also called "
       "rationd.",
       {{"ration serve", "of this user, or of the machine when root starts it"},
        {"ration serve --sim=A100-40:2", "on a simulated node"},
        {"ration serve --listen 127.0.0.1:0", "on any free port"}}},
      {"service",
       Task::kMachine,
       0,
       "install uninstall start stop restart",
       "the daemon under systemd",
       "install | uninstall | start | stop | restart | status | print [OPTIONS]",
       "Writes a hardened unit and controls it. Without root, or with --user, it is the user's own.",
       {{"sudo ration service install --now", "of the machine"},
        {"ration service install --user --now", "of this user"},
        {"ration service print", "only look at the unit"}}},
      {"events",
       Task::kLook,
       kSim | kSocket,
       "",
       "what happened: denials, changes, alerts",
       "[OPTIONS]",
       "The daemon's log, the oldest first. With -f it goes on, and misses nothing when the daemon is started again.",
       {{"ration events -f", "follow"},
        {"ration events --type denied,violation --tenant nlp", "a part"},
        {"ration events --since 10m", "of the last ten minutes"},
        {"ration events -f -o json", "one JSON object a line"}}},
      {"trim",
       Task::kShare,
       kSim | kSocket,
       "*",
       "ask idle holders to give memory back",
       "[WORKLOAD] [OPTIONS]",
       "Programs that use ration's library, or PyTorch through its allocator, give back what they hold and do not use. "
       "Others keep it; ration suspend moves it away.",
       {{"ration trim nlp", "one workload"},
        {"ration trim --idle 30m --dry-run", "who would be asked"},
        {"ration trim --idle 30m", "all that were idle so long"}}},
      {"stop",
       Task::kRun,
       kSim | kSocket,
       "*",
       "end a workload",
       "WORKLOAD [OPTIONS]",
       "Its processes get SIGTERM, and SIGKILL after the grace if they are still there. Only what runs under ration "
       "run can be ended so, and only by who may send it a signal. Asks on a terminal; elsewhere it needs --yes.",
       {{"ration stop notebook", "asks first"},
        {"ration stop notebook --yes --grace 60s", "in a script, with a minute to save"},
        {"ration stop notebook --dry-run", "who would be ended"}}},
      {"suspend",
       Task::kShare,
       kSim | kSocket,
       "*",
       "move a workload's GPU memory to the host",
       "WORKLOAD [OPTIONS]",
       "By the driver's own calls (driver 570 and newer). The program keeps running until it next calls the driver, "
       "and "
       "waits there until ration resume. Policies in ration.toml do the same with idle workloads, and bring them back "
       "when they work again.",
       {{"ration suspend notebook", "its memory is free for others"}}},
      {"resume",
       Task::kShare,
       kSim | kSocket,
       "*",
       "bring a suspended workload back",
       "WORKLOAD [OPTIONS]",
       "Waits in the daemon's queue until its memory has room again. Without a daemon it is tried at once.",
       {{"ration resume notebook", ""}}},
      {"report",
       Task::kAccount,
       kSim | kSocket,
       "close",
       "usage and cost, over any time",
       "[close MONTH] [OPTIONS]",
       "Who had how much memory for how long. The rows, with what was idle, ungoverned and not watched, add up to "
       "capacity multiplied by the recorded time; what was before the first record is said. A closed month never "
       "changes any more.",
       {{"ration report --last", "the newest run, with notes; -o md for a page"},
        {"ration report --slurm 4711", "one job of Slurm"},
        {"ration report --by user --window lastmonth --price 0.031 -o md", "a bill"},
        {"ration report --window 2026-01 -o focus > january.csv", "for chargeback"},
        {"ration report close 2026-01", "seal a month"}}},
      {"recommend",
       Task::kAccount,
       kSim | kSocket,
       "",
       "what limit should I give",
       "WORKLOAD [OPTIONS]",
       "From the peaks and denied requests of its recorded runs: a limit and a guarantee, with reasons and a "
       "back-test.",
       {{"ration recommend nlp/train", ""}}},
      {"env",
       Task::kRun,
       kSim,
       "",
       "print the variables run would set",
       "[OPTIONS]",
       "Shell lines on standard output, with what is kept as it is.",
       {{"ration env --limit 4GiB", ""}}},
      {"sim",
       Task::kRun,
       kSim,
       "",
       "put a program on the simulated GPU without a limit",
       "env [OPTIONS] [-- PROGRAM]",
       "Shell lines that put the simulated driver, and the simulated CUDA runtime of the version that the program's "
       "environment has, in front of NVIDIA's.",
       {{"eval \"$(ration sim env --sim=T4:16GiB)\"", "for another launcher"},
        {"ration sim env -- .venv/bin/python", "for that Python's CUDA version"}}},
      {"config",
       Task::kMachine,
       kSim | kSocket,
       "init reload",
       "the configuration: begin, show, check it",
       "init [FILE] | validate [FILE] | print | path | reload [OPTIONS]",
       "init writes a file in which every key is explained and nothing is set. print shows each value that holds, with "
       "the file and line it comes from. validate names everything that is wrong, with line and column, and exits 2; "
       "with FILE it looks at that file alone. path shows which files count. reload has the daemon read them anew and "
       "shows what changed; a file with anything wrong is rejected whole, and what held goes on.",
       {{"ration config init", "your own file, or the machine's for root"},
        {"ration config print", "what holds, and where it was written"},
        {"ration config validate new.toml && sudo mv new.toml /etc/ration/ration.toml", "before it counts"},
        {"ration config reload", "and the daemon takes it up"}}},
      {"demo",
       Task::kRun,
       0,
       "*",
       "all of it on simulated GPUs",
       "[OPTIONS]",
       "A daemon of its own on simulated GPUs, a dashboard on 127.0.0.1:7077 (or the next port that is free), and real "
       "programs of several tenants under limits: denials and their reasons, limits that move, idle programs. Needs "
       "no "
       "GPU, no root, no network; nothing on this machine is touched, and nothing is left behind. Other verbs look at "
       "it with --sim=demo; each demo prints its own name, --sim=demo:4711, for where several run. What is played is a "
       "TOML file: the tables of ration.toml beside [scenario], [[program]], "
       "[[command]] and [[moment]]; share/ration/scenarios has those that come with ration. slurm and "
       "kubernetes are programs instead: they play on a real Slurm of two nodes, or a real Kubernetes of one, as root "
       "and where that is installed.",
       {{"ration demo", "until Ctrl-C"},
        {"ration demo --scenario jupyterhub --speed 2", "twelve notebooks on one card, twice as fast"},
        {"ration demo --scenario slurm", "jobs of a real Slurm, as root"},
        {"ration demo --for 20s | cat", "without a terminal, and shorter"},
        {"ration set train --limit 20GiB --sim=demo", "from another terminal"}}},
      {"help",
       Task::kHelp,
       0,
       "",
       "this, or one topic",
       "[VERB | TOPIC | ERROR]",
       "Topics: units, exit-codes, env, config, enforcement, simulated, schema, errors. An error's number is explained "
       "too.",
       {{"ration help units", ""},
        {"ration help E1104", ""},
        {"ration help schema ps", "the JSON schema of ration ps -o json"}}},
      {"version",
       Task::kHelp,
       0,
       "",
       "which ration this is",
       "",
       "Prints the version, as ration --version does.",
       {{"ration version", ""}}},
      {"completion",
       Task::kHelp,
       0,
       "",
       "shell completion",
       "bash | zsh | fish",
       "Prints a script for the shell.",
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
