#!/usr/bin/env bash
# Runs everything that docs/evidence.md tells of and writes it anew. Takes hours, which need not
# be those of one day or one machine: what is already in FOLDER (docs/evidence) is not run again.
# Figures of different cores do not mix: FOLDER/code is the sum of what is run here.
#   SCHEDULES  how many random schedules (20000000), in batches of 500000
#   SEED       of the first
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${FOLDER:-docs/evidence} bin=build/evidence
schedules=${SCHEDULES:-20000000} seed=${SEED:-400000000}
mkdir -p "$dir" "$bin"

# What the simulator and the explorer are made of; the drivers' tools beside it may change.
code=($(go list -deps ./internal/sim ./internal/explore | sed -n 's|^github.com/rota-dev/rota/||p') ':!internal/*_test.go' ':!internal/*/testdata/*')
if [ -n "$(git status --porcelain -- "${code[@]}")" ]; then
  echo "${code[*]} are not committed: evidence is of a commit" >&2
  exit 1
fi
sum=$(git ls-files -s -- "${code[@]}" | sha256sum | cut -c1-16)
if [ -s "$dir/code" ] && [ "$(cat "$dir/code")" != "$sum" ]; then
  echo "$dir holds figures of other code, as it was at $(cat "$dir/of"): rm -r $dir, or name another FOLDER" >&2
  exit 1
fi
echo "$sum" >"$dir/code"
[ -s "$dir/of" ] || git log -1 --format=%h -- "${code[@]}" >"$dir/of"

go build -o "$bin/rota" ./cmd/rota
go build -tags mutants -o "$bin/rota-mutants" ./cmd/rota

# once NAME COMMAND...: its output, unless it is there. A broken promise is a
# result too.
once() {
  local out=$dir/$1
  shift
  [ -s "$out" ] && return
  echo "-- $*"
  "$@" >"$out.part" || [ $? = 1 ]
  mv "$out.part" "$out"
}

once shown.json "$bin/rota-mutants" explore --mutants -o json
once mutants.json "$bin/rota-mutants" sim --mutants -o json
once directed.json "$bin/rota" sim --directed all -o json
once explore.json "$bin/rota" explore -o json
for ((at = 0; at < schedules; at += 500000)); do
  once "schedules-$((seed + at)).json" "$bin/rota" sim --schedules 500000 --seed $((seed + at)) -o json
done
if grep -q '"whole": true' build/mutate/figures.json 2>/dev/null; then # of make mutate, which has its own page
  cp build/mutate/figures.json "$dir/mutated.json"
fi
go run ./cmd/rota/internal/dev evidence "$dir" >docs/evidence.md
echo "docs/evidence.md is written"
