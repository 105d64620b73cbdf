#!/usr/bin/env bash
# The GPU script against simulated cards: every row as it has to be there, what it measures is what was simulated, it survives what
# hangs; and without a card it says so and exits 3.
set -u
here=$SOURCE/tests/gpu
tarball=$(compgen -G "$SOURCE/build/dist/ration-*-linux-$(uname -m).tar.gz" | tail -1)
[ -n "$tarball" ] || { echo "skipped: no tarball here (./dev package makes one)"; exit 77; }
folder=$(mktemp -d /tmp/ration-gpu-test-XXXXXX)
trap 'rm -rf "$folder"' EXIT
bad() { echo "WRONG: $1"; exit 1; }

# As somebody has it who has no source, and no build.
mkdir "$folder/alone" && cp -r "$here" "$folder/alone/gpu"
run() { # CODE NAME SCRIPT OPTIONS…
  local code=$1 out=$folder/$2 script=$3
  shift 3
  "$script" --out "$out" "$@" "$tarball"
  local ended=$?
  [ $ended -eq "$code" ] || bad "exit code $ended, not $code"
  tar -tzf "$out/report.tar.gz" ./table.md >/dev/null || bad "no report"
}
row() { grep "^| $2 |" "$folder/$1/table.md"; } # NAME NUMBER
agrees() { # MEASURED.toml SIMULATED.toml CONTEXT
  python3 - "$1" "$2" "$3" <<'END' || bad "$1 is not what was simulated"
import sys, tomllib
measured, simulated = (tomllib.load(open(path, "rb")) for path in sys.argv[1:3])
simulated["contexts"] = {"Tesla T4": sys.argv[3]}
for field in measured.keys() | simulated.keys():
    if measured.get(field) != simulated.get(field):
        print(f"{field}: measured {measured.get(field)}, simulated {simulated.get(field)}")
sys.exit(measured != simulated)
END
  # What the profile says of the card, with the profile: the same card.
  local node
  node=$(sed -n "s/.*--sim='\([^']*\)FILE'.*/\1/p" "$1")
  [ "$node" = "T4:16384MiB,driver=" ] || bad "$1 says another card: $node"
  "$SOURCE/build/release/bin/ration" run --sim="$node$1" --limit 1GiB -- "$SOURCE/build/release/bin/ration-workload" total >/dev/null || bad "$1 cannot be loaded"
}

run 0 580 "$here/run.sh" --sim T4:16GiB,driver=580
run 0 535 "$folder/alone/gpu/run.sh" --sim T4:16GiB,driver=535 --only "$(seq -s, 1 32)"
for release in 580 535; do
  if grep -E '\| (HANG|FAIL|BROKEN.*|not run .*) \|$' "$folder/$release/table.md"; then bad "these rows on $release"; fi
  for number in $(seq 32); do
    [ "$(row $release "$number" | wc -l)" -eq 1 ] && [ -s "$folder/$release/$(printf %02d "$number").txt" ] || [ "$number" = 2 ] || bad "no row or no output of $number on $release"
  done
  agrees "$folder/$release/$release-t4.toml" "$SOURCE/sim/drivers/$release.toml" 104MiB
done
for number in 1 14; do [ "$(row 580 $number)" != "$(row 535 $number)" ] || bad "$number finds the same on both releases"; done
grep -q cuCheckpointProcessLock "$folder/580/names-cu.txt" && ! grep -q cuCheckpointProcessLock "$folder/535/names-cu.txt" || bad "the names of the releases"
run 0 unlike "$folder/alone/gpu/run.sh" --sim "T4:16GiB:context=200MiB,driver=$here/unlike.toml" --only 1,6,9,14,15,18
agrees "$folder/unlike/581-t4.toml" "$here/unlike.toml" 200MiB
! grep 'Not measured' "$folder"/*/*.toml || bad "a field that no experiment measures"
run 0 part "$folder/alone/gpu/run.sh" --sim "T4,driver=$here/unlike.toml" --only 1
grep -q '^# Not measured: as in 580.toml' "$folder/part/581-t4.toml" && grep -qx 'pool_growth = "32MiB"' "$folder/part/581-t4.toml" ||
  bad "what was not measured is not the nearest release's"

run 0 stuck "$folder/alone/gpu/run.sh" --sim T4 --also "$here/stuck.py" --only 90,91,92,93,94
for expected in '90 .* HANG |' '91 .* SIGSEGV .* FAIL |' '92 .*not foreseen.* FAIL |' '93 .* ran | as expected |' '94 .* not run ('; do
  grep -q "^| $expected" "$folder/stuck/table.md" || bad "no row $expected"
done
case $(sed -n 's/^State:\t//p' "/proc/$(sed -n 's/^child //p' "$folder/stuck/90.txt")/status" 2>/dev/null) in
  "" | Z*) ;;
  *) bad "what hung still runs" ;;
esac
for number in 95 96; do
  run 1 "broken$number" "$folder/alone/gpu/run.sh" --sim T4 --also "$here/stuck.py" --only $number
  row "broken$number" $number | grep -q 'BROKEN: ' || bad "$number does not say so"
done

command -v nvidia-smi >/dev/null && exit 0
"$here/run.sh" --out "$folder/none" "$tarball"
[ $? -eq 3 ]
