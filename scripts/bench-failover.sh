#!/usr/bin/env bash
# Measures rota and franz-go's consumer groups by the same driver, in turn, and
# compares them. What is already in FOLDER (build/bench) is not measured again.
#   ROUNDS  how often each (10); each round is another phase of the heartbeat
#   SYSTEMS which of them: rota classic kip848
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${FOLDER:-build/bench} rounds=${ROUNDS:-10} systems=${SYSTEMS:-rota classic kip848}
mkdir -p "$dir"
go build -o "$dir/rota" ./cmd/rota
go build -o "$dir/dev" ./cmd/rota/internal/dev
(cd test && go build -o "../$dir/franz" ./bench/franz)

# measure FILE FLAGS...: one run of one system, unless it is there. A broken
# promise is a result too, and the figures tell it.
measure() {
  local file=$dir/$1 code=0
  shift
  [ -s "$file" ] && return
  "$dir/dev" bench failover --runs 1 --report "$dir" -o json "$@" >"$dir/last.out" || code=$?
  [ -s "$file" ] || exit "$code"
}

for ((round = 0; round < rounds; round++)); do
  for system in $systems; do
    case $system in
      rota) measure "rota-$round.json" --first "$round" --rota "$dir/rota" ;;
      classic) measure "franz-go-classic-$round.json" --first "$round" --system 'franz-go classic' --member "$dir/franz --protocol classic" ;;
      kip848) measure "franz-go-KIP-848-$round.json" --first "$round" --system 'franz-go KIP-848' --member "$dir/franz --protocol kip848" ;;
      *) echo "SYSTEMS: $system: want rota, classic, kip848" >&2 && exit 64 ;;
    esac
  done
done
"$dir/dev" bench page "$dir"
