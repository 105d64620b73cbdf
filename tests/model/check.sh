#!/usr/bin/env bash
# Checks book.pml in every order of steps, and that the check finds the fault when one step is left out.
set -euo pipefail
command -v spin >/dev/null || { echo "there is no spin (apt-get install spin)"; exit 77; }
model=$(cd "$(dirname "$0")" && pwd)/book.pml
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# errors MODEL DEATHS: how many the checker finds.
errors() {
  spin -a -DDEATHS="$2" -DCHANGES=1 "$1" >/dev/null
  gcc -O2 -DSAFETY -DCOLLAPSE -w -o check pan.c
  ./check -m1000000 -w24 | tee log | sed -nE 's/.*errors: ([0-9]+).*/\1/p'
  grep -q 'max search depth too small' log && echo "the search was cut off" && return 1
  return 0
}

[ "$(errors "$model" 2)" = 0 ] || { cat log; exit 1; }
grep 'states, stored' log
sed 's/atomic { confirmed\[seen_last\] = .* }/skip/' "$model" >unconfirmed.pml
[ "$(errors unconfirmed.pml 1)" = 1 ] || { echo "without confirming nothing was found"; exit 1; }
