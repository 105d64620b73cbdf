#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: do limits hold there, do frameworks behave, what does it cost? Prints one table.
#   tests/gpu/run.sh [TARBALL]    takes the tarball of ./dev package, or builds here; needs no network, under eight minutes
#   RUN_ON_SIM=1 tests/gpu/run.sh TARBALL    the same on a simulated card, without frameworks: what CI can check of it
# Exit code: 0 every row is ok or n/a, 1 one is not, 3 no GPU here.
set -u
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d /tmp/ration-gpu-XXXXXX)
trap 'rm -rf "$scratch"' EXIT
export RATION_RUNTIME_DIR=$scratch

sim=()
if [ -n "${RUN_ON_SIM:-}" ]; then
  sim=(--sim=T4:16GiB) limit=2GiB
  export RATION_SIM_DIR=$scratch
else
  limit=8GiB
  command -v nvidia-smi >/dev/null || { echo "no GPU here: nvidia-smi is not installed"; exit 3; }
  nvidia-smi -L | grep -q . || { echo "no GPU here: nvidia-smi lists none"; exit 3; }
fi
bytes=$((${limit%GiB} * 1073741824))

if [ $# -gt 0 ]; then
  tar -xzf "$1" -C "$scratch" && bin=$(echo "$scratch"/ration-*/bin)
else
  (cd "$here/../.." && ./dev build release >/dev/null) && bin=$here/../../build/release/bin
fi
ration=$bin/ration workload=$bin/ration-workload
[ -x "$ration" ] || { echo "no ration in '$bin'"; exit 1; }

failed=0
row() { # NAME VERDICT VALUE
  printf '| %s | %s | %s |\n' "$1" "$3" "$2"
  [ "$2" != FAIL ] || failed=1
}
judge() { [ "$1" = "$2" ] && echo ok || echo FAIL; }
limited() { timeout 120 "$ration" run "${sim[@]}" --limit "$limit" --summary "json:$scratch/summary.json" -- "$@"; }

echo "device: ${RUN_ON_SIM:+simulated}$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -1)"
echo "date: $(date -u +%F), limit $limit"
echo
echo "| what | result | |"
echo "| --- | --- | --- |"

total=$(limited "$workload" total 2>"$scratch/err")
row "a plain driver program sees as total" "$(judge "$total" "$bytes")" "$total bytes"
probe=$(limited "$workload" probe 256 2>&1)
past=$(awk -v limit="$bytes" '$2 > limit || $5 != "returned" { print $1 }' <<<"$probe" | xargs)
row "ways of taking memory, $(wc -l <<<"$probe") tried" "$([ -z "$past" ] && echo ok || echo FAIL)" "${past:-none got past}"
for mode in "grab --steps 2" "grow --steps 2" "cache --steps 2" "replay bcrafton_forward_backward --via malloc" "replay bcrafton_forward_backward --via async" "replay bcrafton_forward_backward --via vmm"; do
  # shellcheck disable=SC2086
  out=$(timeout 120 "$ration" run "${sim[@]}" --limit 6GiB -- "$workload" $mode 2>&1); code=$?
  row "ration-workload $mode" "$(judge "$code" 0)" "${out##*$'\n'}"
done
out=$(limited "$workload" hold "$((bytes / 1048576 + 512))MiB" 2>&1); code=$?
row "a request beyond the limit" "$(judge "$code" 1)" "${out##*$'\n'}"
doctor=$("$ration" doctor "${sim[@]}" --probe 2>&1); code=$?
row "doctor --probe" "$(judge "$code" 0)" "$(tail -1 <<<"$doctor" | tr -s ' ')"

# What NVML says of a process against what the ledger says.
"$ration" run "${sim[@]}" --limit "$limit" --name held -- "$workload" hold 1GiB >"$scratch/held" 2>&1 &
for _ in $(seq 200); do grep -q holding "$scratch/held" && break; sleep 0.1; done
"$ration" explain held "${sim[@]}" -o json >"$scratch/explain.json" 2>/dev/null
row "1 GiB held: ledger, and what NVML shows beyond it" "$(grep -q '"data"' "$scratch/explain.json" && echo ok || echo FAIL)" \
  "$(python3 "$here/explained.py" "$scratch/explain.json" 2>&1)"
kill %1 2>/dev/null; wait 2>/dev/null

# The library's pool, with each back end.
export PYTHONPATH=$here/../../python RATION_LIBRARY=$bin/../lib/libration.so.1
for allocator in vmm async; do
  out=$(TF_GPU_ALLOCATOR=$([ "$allocator" = async ] && echo cuda_malloc_async) limited python3 "$here/pool.py" pool 2>&1 | tail -1)
  row "the library's pool, $allocator" "$(grep -q '^ok' <<<"$out" && echo ok || echo FAIL)" "${out#ok: }"
done

# Cost of an allocation pair, and of whole frameworks.
if [ -z "${RUN_ON_SIM:-}" ]; then
  pairs=$(python3 "$here/pairs.py"); with=$(limited python3 "$here/pairs.py")
  row "cuMemAlloc + cuMemFree of 2 MiB, without and with" ok "$pairs ns, $with ns"
  for framework in torch jax cupy; do
    if ! python3 -c "import $framework" 2>/dev/null; then row "$framework" "n/a (not installed)" ""; continue; fi
    plain=$(timeout 100 python3 "$here/frameworks.py" "$framework" 0 2>&1 | tail -1)
    held=$(limited python3 "$here/frameworks.py" "$framework" "$bytes" 2>&1 | tail -1)
    if [ "$framework" = torch ]; then
      for whose in own ours; do
        out=$(timeout 100 python3 "$here/pool.py" torch "$whose" 2>&1 | tail -1)
        row "torch training, $whose allocator" "$(grep -q '^ok' <<<"$out" && echo ok || echo FAIL)" "${out#ok: }"
      done
    fi
    row "$framework without a limit" "$(grep -q '^ok' <<<"$plain" && echo ok || echo FAIL)" "$plain"
    row "$framework under $limit" "$(grep -q '^ok' <<<"$held" && echo ok || echo FAIL)" "$held"
  done
fi
exit $failed
