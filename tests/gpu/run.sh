#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: do limits hold there, do frameworks behave, what does it cost, and what does its driver do
# that ration can only believe? One table, and a profile of the driver for the simulator. README.md beside this says more.
#   tests/gpu/run.sh [OPTIONS] [TARBALL]    TARBALL: of ./dev package; without one it is built here
#     --out FOLDER     what is written: table.md, NN.txt of each experiment, NAME.toml, all of it in report.tar.gz (./ration-gpu-report)
#     --only LIST      parts: limits, frameworks, and numbers of experiments: limits,1,9
#     --minutes N      for the experiments together (8)
#     --sim NODE       a simulated node instead of the card, without frameworks: what CI can check
#     --also MODULE    a file with more experiments
# Exit code: 0, 1 a promise of ration does not hold here, 2 wrong usage, 3 no GPU here.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=./ration-gpu-report only= minutes=8 node= also= tarball=
while [ $# -gt 0 ]; do
  case $1 in
    --out | --only | --minutes | --sim | --also) [ $# -gt 1 ] || { echo "$1 needs a value"; exit 2; } ;;&
    --out) out=$2; shift ;;
    --only) only=$2; shift ;;
    --minutes) minutes=$2; shift ;;
    --sim) node=$2; shift ;;
    --also) also=$2; shift ;;
    -*) sed -n '4,10s/^# \?//p' "$0"; exit 2 ;;
    *) tarball=$1 ;;
  esac
  shift
done
limits=yes frameworks=yes numbers=$only
if [ -n "$only" ]; then
  case ,$only, in *,limits,*) ;; *) limits= ;; esac
  case ,$only, in *,frameworks,*) ;; *) frameworks= ;; esac
  numbers=$(tr , '\n' <<<"$only" | grep -vx -e limits -e frameworks | paste -sd,)
fi
[ -z "$node" ] || frameworks=  # the simulator runs no kernels

scratch=$(mktemp -d /tmp/ration-gpu-XXXXXX) || exit 2
trap 'rm -rf "$scratch"' EXIT
export RATION_RUNTIME_DIR=$scratch

sim=()
if [ -n "$node" ]; then
  sim=(--sim="$node") limit=4GiB
  export RATION_SIM_DIR=$scratch
else
  limit=8GiB
  command -v nvidia-smi >/dev/null || { echo "no GPU here: nvidia-smi is not installed"; exit 3; }
  nvidia-smi -L | grep -q . || { echo "no GPU here: nvidia-smi lists none"; exit 3; }
fi
bytes=$((${limit%GiB} * 1073741824))

if [ -n "$tarball" ]; then
  tar -xzf "$tarball" -C "$scratch" || exit 2
  bin=$(echo "$scratch"/ration-*/bin)
else
  (cd "$here/../.." && ./dev build release >/dev/null) || exit 2
  bin=$(cd "$here/../../build/release/bin" && pwd)
fi
ration=$bin/ration workload=$bin/ration-workload
[ -x "$ration" ] || { echo "no ration in '$bin'"; exit 2; }
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
# The Python package is the tarball's, else the source's.
export PYTHONPATH=$here:$bin/../lib/ration/python:$here/../../libration/python RATION_LIBRARY=$bin/../lib/libration.so.1

failed=0
row() { # NAME EXPECTED FOUND VERDICT
  printf '| - | %s | %s | %s | %s |\n' "$1" "$2" "$3" "$4"
  [ "$4" != BROKEN ] || failed=1
}
judge() { [ "$1" = "$2" ] && echo as expected || echo BROKEN; }
good() { grep -q '^ok' <<<"$1" && echo as expected || echo BROKEN; }
limited() { timeout -k 5 120 "$ration" run "${sim[@]}" --limit "$limit" --summary "json:$scratch/summary.json" -- "$@"; }
has() { python3 -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)"; }

check_limits() {
  local total probe past mode words out_text code doctor allocator
  total=$(limited "$workload" total 2>"$scratch/err")
  row "a plain driver program sees as total" "$bytes bytes" "$total bytes" "$(judge "$total" "$bytes")"
  # A smaller limit: some ways take it in pieces of 512 bytes.
  timeout -k 5 300 "$ration" run "${sim[@]}" --limit 3GiB -- "$workload" probe 256 >"$out/probe.txt" 2>"$scratch/err"; code=$?
  probe=$(<"$out/probe.txt")
  [ $code -eq 0 ] || probe+=$'\n'"(exit code $code)"
  past=$(awk -v limit=3221225472 '$2 > limit || $5 != "returned" { print $1 }' <<<"$probe" | xargs)
  row "ways of taking memory, $(wc -l <<<"$probe") tried" "none gets past" "${past:-none got past}" "$(judge "$past" "")"
  for mode in "grab --steps 2" "grow --steps 2" "cache --steps 2" "replay bcrafton_forward_backward --via malloc" "replay bcrafton_forward_backward --via async" "replay bcrafton_forward_backward --via vmm"; do
    read -ra words <<<"$mode"
    out_text=$(timeout -k 5 120 "$ration" run "${sim[@]}" --limit 6GiB -- "$workload" "${words[@]}" 2>&1); code=$?
    row "ration-workload $mode" "runs" "${out_text##*$'\n'}" "$(judge "$code" 0)"
  done
  out_text=$(limited "$workload" hold "$((bytes / 1048576 + 512))MiB" 2>&1); code=$?
  row "a request beyond the limit" "denied" "${out_text##*$'\n'}" "$(judge "$code" 1)"
  doctor=$(timeout -k 5 120 "$ration" doctor "${sim[@]}" --probe 2>&1 | tee "$out/doctor.txt"; exit "${PIPESTATUS[0]}"); code=$?
  row "doctor --probe" "nothing fails" "$(tail -1 <<<"$doctor" | tr -s ' ')" "$(judge "$code" 0)"

  # What NVML says of a process against what the book says.
  "$ration" run "${sim[@]}" --limit "$limit" --name held -- "$workload" hold 1GiB >"$scratch/held" 2>&1 &
  for _ in $(seq 200); do grep -q holding "$scratch/held" && break; sleep 0.1; done
  "$ration" explain held "${sim[@]}" -o json >"$scratch/explain.json" 2>/dev/null
  row "1 GiB held: the book, and what NVML shows beyond it" "little beyond it" "$(python3 "$here/explained.py" "$scratch/explain.json" 2>&1 | tail -1)" \
    "$(grep -q '"data"' "$scratch/explain.json" && echo as expected || echo BROKEN)"
  kill %1 2>/dev/null; wait 2>/dev/null

  # The library's pool, with each back end.
  for allocator in vmm async; do
    if ! has ration; then row "the library's pool, $allocator" "" "" "n/a (the Python package is not here)"; continue; fi
    out_text=$(TF_GPU_ALLOCATOR=$([ "$allocator" = async ] && echo cuda_malloc_async) limited python3 "$here/pool.py" pool 2>&1 | tail -1)
    row "the library's pool, $allocator" "within its limit" "${out_text#ok: }" "$(good "$out_text")"
  done
}

# Whole frameworks, and what an allocation pair costs one.
check_frameworks() {
  local pairs with framework plain held whose out_text
  pairs=$(timeout -k 5 120 python3 "$here/pairs.py"); with=$(limited python3 "$here/pairs.py")
  row "cuMemAlloc + cuMemFree of 2 MiB, without and with" "" "$pairs ns, $with ns" "as expected"
  for framework in torch jax cupy; do
    if ! has "$framework"; then row "$framework" "" "" "n/a (not installed)"; continue; fi
    plain=$(timeout -k 5 100 python3 "$here/frameworks.py" "$framework" 0 2>&1 | tail -1)
    held=$(limited python3 "$here/frameworks.py" "$framework" "$bytes" 2>&1 | tail -1)
    if [ "$framework" = torch ] && has ration; then
      for whose in own ours; do
        out_text=$(timeout -k 5 100 python3 "$here/pool.py" torch "$whose" 2>&1 | tail -1)
        row "torch training, $whose allocator" "runs" "${out_text#ok: }" "$(good "$out_text")"
      done
    fi
    row "$framework without a limit" "runs" "$plain" "$(good "$plain")"
    row "$framework under $limit" "sees the limit, denied beyond it" "$held" "$(good "$held")"
    out_text=$(python3 "$here/frameworks.py" ratios "$plain" "$held")
    row "$framework, its speed under $limit beside that without" "0.998 or more" "${out_text#*: }" "$(grep -q '^ok' <<<"$out_text" && echo as expected || echo differs)"
  done
}

report() {
  echo "device: ${node:+simulated $node}$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -1)"
  echo "date: $(date -u +%F), limit $limit"
  echo
  echo "| # | experiment | expected | found | verdict |"
  echo "| --- | --- | --- | --- | --- |"
  [ -z "$limits" ] || check_limits
  [ -z "$frameworks" ] || check_frameworks
  if [ -z "$only" ] || [ -n "$numbers" ]; then
    python3 -B -m experiments --ration "$ration" --out "$out" --sim "$node" --only "$numbers" --minutes "$minutes" --also "$also" || failed=1
  fi
  return $failed
}
report 2>&1 | tee "$out/table.md"
failed=${PIPESTATUS[0]}
tar -C "$out" --exclude report.tar.gz -czf "$scratch/report.tar.gz" . && mv "$scratch/report.tar.gz" "$out"
exit "$failed"
