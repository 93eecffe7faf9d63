#!/usr/bin/env bash
# The stages of `make test`: scripts/test.sh STAGE...
# Output is what the tools print; each stage is announced and timed. The first
# stage that fails ends the run.
set -euo pipefail
cd "$(dirname "$0")/.."

# Pins. `go run pkg@version` builds these outside our modules, so that no go.mod
# of ours carries them; the build cache keeps the binaries.
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.8.0
gosec=github.com/securego/gosec/v2/cmd/gosec@v2.29.0

# Heavy packages explore schedules by the hundred thousand: they run without
# -race, in a stage of their own.
heavy_pkgs='/internal/(sim|explore)$'

# What needs real servers has modules and a stage of its own, so that unit stays
# quick.
server_pkgs='^github.com/rota-dev/rota/(test|examples/fenced-sink|drivers/[^/]+)(/|$)'

# Real processes mostly wait for leases to run out: many at once, and nothing else
# beside them.
process_pkgs='/test/processes$'

# What takes longest begins first, so that nothing waits for it alone at the end. go test
# starts packages in the order of its arguments, and reports them in it.
long_pkgs='/(cmd/rota|rotatest|drivers/rota(nats|zk|rabbit)|test)$'
longest_first() {
  local pkgs
  pkgs=$(cat)
  grep -E "$long_pkgs" <<<"$pkgs" || true
  grep -vE "$long_pkgs" <<<"$pkgs" || true
}

flags=
if [ "${CI:-}" = true ]; then
  flags=-count=1 # a result from the cache shows nothing
fi

# Always the pattern `work`: from the root, ./... covers the root module alone.

lint() {
  echo "-- gofmt"
  local unformatted
  unformatted=$(gofmt -l .)
  if [ -n "$unformatted" ]; then
    printf 'gofmt -w these:\n%s\n' "$unformatted"
    return 1
  fi
  echo "-- go vet"
  go vet work
  go vet -tags mutants work
  echo "-- build for darwin and windows"
  local os
  for os in darwin windows; do
    GOOS=$os CGO_ENABLED=0 go build ./... # the root module is what must be portable
  done
  echo "-- staticcheck"
  go run "$staticcheck" work
  echo "-- govulncheck"
  vuln
}

# vuln goes on without an answer from the vulnerability database, and only then.
# GOVULNDB names another one, such as a mirror.
vuln() {
  local out
  if out=$(go run "$govulncheck" ${GOVULNDB:+-db="$GOVULNDB"} work 2>&1); then
    printf '%s\n' "$out"
  elif grep -q '^govulncheck: fetching vulnerabilities:' <<<"$out"; then
    echo "NOT CHECKED: the vulnerability database did not answer ($(grep -m1 '^govulncheck:' <<<"$out"))"
  else
    printf '%s\n' "$out"
    return 1
  fi
}

# gosec is no part of lint: to build it takes minutes. It looks at modules one by one.
# scripts/gosec.txt has the findings that are none; what is new fails, and so does a
# line there that nothing is found for any more.
gosec() {
  local mods mod found
  mods=$(find . -name go.mod -not -path '*/testdata/*' | sort)
  found=$(for mod in $mods; do (cd "$(dirname "$mod")" && go run "$gosec" -quiet -no-fail -fmt=golint ./...); done)
  awk -v root="$PWD/" '
    FNR == NR {
      if ($0 !~ /^(#|$)/) { n++; rule[n] = $1; at[n] = $2; like[n] = "^" $2 "$"; gsub(/[.]/, "[.]", like[n]); gsub(/[*]/, ".*", like[n]) }
      next
    }
    match($0, /Rule:G[0-9]+/) {
      found++
      r = substr($0, RSTART + 5, RLENGTH - 5)
      file = substr($0, 1, index($0, ":") - 1)
      sub("^" root, "", file)
      known = 0
      for (i = 1; i <= n; i++) if (rule[i] == r && file ~ like[i]) { known = 1; used[i] = 1 }
      if (!known) { print "new: " $0; bad = 1 }
    }
    END {
      for (i = 1; i <= n; i++) if (!used[i]) { print "scripts/gosec.txt: nothing is found for " rule[i] " " at[i]; bad = 1 }
      print found + 0 " findings"
      exit bad
    }' scripts/gosec.txt - <<<"$found"
}

# ticks prints how much of the processor others have had since the machine started, and
# how much there was. Only Linux tells.
ticks() {
  awk '/^cpu / { for (i = 2; i <= 9; i++) all += $i; print $9, all; told = 1 } END { if (!told) print 0, 0 }' /proc/stat 2>/dev/null || echo 0 0
}

# disturbed is how many thousandths of the processor others may have until what fails shows
# nothing: a machine that stands still for seconds lets leases run out, and brokers give up.
disturbed=10

# go_test FLAG... -- PACKAGE... runs go test. What failed on a machine that others took
# away for more than that runs again, up to twice, by itself, and then it counts. On a machine that
# nobody else uses, what fails has failed.
go_test() {
  local args=() failed round before share pkg names status=0 out
  while [ "$1" != -- ]; do
    args+=("$1")
    shift
  done
  shift
  out=$(mktemp)
  before=$(ticks)
  go test "${args[@]}" "$@" 2>&1 | tee "$out" || status=$?
  for round in 1 2; do
    [ "$status" != 0 ] || break
    share=$(echo "$before $(ticks)" | awk '{ print ($4 > $2) ? int(1000 * ($3 - $1) / ($4 - $2)) : 0 }')
    if [ "$share" -le "$disturbed" ]; then
      break
    fi
    echo "-- others had $share of 1000 parts of the processor meanwhile: what failed runs again by itself ($round)"
    failed=$(awk '/^--- FAIL: / { names = names (names == "" ? "" : "|") $3 }
      /^(ok|FAIL)[ \t]+[^ \t]+\/[^ \t]+/ { if ($1 == "FAIL") print $2, (names == "" ? "." : "^(" names ")$"); names = "" }' "$out")
    if [ -z "$failed" ]; then # it was none of the tests
      break
    fi
    : >"$out"
    before=$(ticks)
    status=0
    while read -r pkg names; do
      go test "${args[@]}" -count=1 -parallel 2 -run "$names" "$pkg" 2>&1 | tee -a "$out" || status=$?
    done <<<"$failed"
  done
  rm "$out"
  return "$status"
}

unit() {
  local race= cc pkgs
  read -r cc _ <<<"$(go env CC)"
  if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$cc" >/dev/null; then
    race=-race
  else
    echo "no C compiler: running without -race"
  fi
  pkgs=$(go list work)
  pkgs=$(grep -vE "$heavy_pkgs|$server_pkgs" <<<"$pkgs" | longest_first)
  go_test -p 4 -timeout 20m $race $flags -- $pkgs # some of them mostly wait for processes
}

# servers installs what is missing, if it may, and runs the tests against it. A
# result from the cache would not know what was installed since. The tests of stores
# start servers, those of brokers mostly wait, for leases, timeouts and back-off: the
# one beside the other keeps 2 cores busy. rotatest starts two servers at a time,
# however many tests want one.
servers() {
  scripts/deps.sh
  local pkgs
  pkgs=$(go list work)
  pkgs=$(grep -E "$server_pkgs" <<<"$pkgs" | longest_first)
  go_test -count=1 -timeout 20m -p 3 -parallel 4 -- $(grep -vE "$process_pkgs" <<<"$pkgs")
  go_test -count=1 -timeout 20m -parallel 8 -- $(grep -E "$process_pkgs" <<<"$pkgs")
}

# matrix is what make test shows on some stores, or by a few histories, on all of them
# and by many. Nothing is skipped for want of a server.
matrix() {
  scripts/deps.sh
  export ROTA_REQUIRE_REAL=1
  ROTA_HISTORIES=${ROTA_HISTORIES:-200} go test -count=1 -timeout 3h -parallel 3 -run 'Histories$' ./test
  ROTA_MATRIX=1 go test -count=1 -timeout 3h -parallel 6 ./test/processes
}

# burst is the row of a thousand members, with a connection each.
burst() {
  mkdir -p build/bench
  ROTA_BURST=${ROTA_BURST:-1000} ROTA_BURST_REPORT=${ROTA_BURST_REPORT:-$PWD/build/bench/bursts.jsonl} \
    go test -count="${RUNS:-1}" -timeout 2h -v -parallel 1 -run TestS0_11 ./test/processes
}

heavy() {
  local pkgs
  pkgs=$(go list work)
  if ! pkgs=$(grep -E "$heavy_pkgs" <<<"$pkgs"); then
    echo "no package matches $heavy_pkgs"
    return
  fi
  go test -timeout 30m $flags $pkgs
  # Files tagged !race: with the detector, hundreds of thousands of timers in a
  # bubble crash the runtime of Go 1.26 (a segmentation fault in selectgo).
  go test -timeout 30m $flags -run 'TestS0_' .
}

# mutants builds each known defect in and asks the tests to catch it.
mutants() {
  go test -timeout 30m -tags mutants -run Mutant $flags . ./internal/sim ./internal/explore ./cmd/rota/internal/agent ./cmd/rota/internal/lab
}

# fuzz gives every fuzz target FUZZTIME.
fuzz() {
  local pkgs pkg names name
  pkgs=$(go list work)
  for pkg in $pkgs; do
    names=$(go test -list '^Fuzz' "$pkg")
    for name in $(grep '^Fuzz' <<<"$names" || true); do
      # Few tries to make an input smaller: a target that is not wholly repeatable
      # would spend its time on that.
      go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-10s}" -fuzzminimizetime 10x "$pkg"
    done
  done
}

# tidy does every module, without a network if the module cache has what it needs.
# `go mod tidy` does not look at go.work, and the version at which our modules
# require each other need not be published. So it works on a copy of go.mod and
# go.sum in which our modules are replaced by their folders. Afterwards go.mod loses
# the replacements, and go.sum gets back the checksums of our modules: a folder has
# none. `go mod tidy` also drops the root from a module that does not import it yet;
# the house wants it named in all of them.
tidy() {
  local root=github.com/rota-dev/rota mods mod tmp version
  mods=$(find . -name go.mod -not -path '*/testdata/*' -exec dirname {} + | sort)
  version=$(sed -n "s|.*$root \(v[^ ]*\) => \./$|\1|p" go.work)
  tmp=$(mktemp -d)
  for mod in $mods; do
    echo "-- $mod"
    tidy_one "$mod"
  done
  rm -r "$tmp"
  go work sync
}

tidy_one() {
  local other path changes=()
  cp "$1/go.mod" "$tmp/go.mod"
  : >>"$1/go.sum"
  cp "$1/go.sum" "$tmp/go.sum"
  for other in $mods; do
    path=$(sed -n 's/^module //p' "$other/go.mod")
    go mod edit -replace="$path=$PWD/$other" "$tmp/go.mod"
    changes+=(-dropreplace="$path")
  done
  (cd "$1" && GOWORK=off go mod tidy -modfile="$tmp/go.mod")
  for path in $([ "$1" = . ] || echo "$root") $(sed -n "s|^\(require\)\{0,1\}[[:space:]]*\($root/[^ ]*\) v.*|\2|p" "$tmp/go.mod"); do
    changes+=(-require="$path@$version")
  done
  go mod edit "${changes[@]}" "$tmp/go.mod"
  { grep -E "^$root(/[^ ]*)? $version(/| )" "$1/go.sum" || true; cat "$tmp/go.sum"; } | LC_ALL=C sort -s -t ' ' -k 1,1 >"$tmp/sum"
  cmp -s "$tmp/go.mod" "$1/go.mod" || cp "$tmp/go.mod" "$1/go.mod"
  cmp -s "$tmp/sum" "$1/go.sum" || cp "$tmp/sum" "$1/go.sum"
  [ -s "$1/go.sum" ] || rm "$1/go.sum" # the root requires nothing
}

stage=
trap '[ -z "$stage" ] || echo "== stage $stage: FAILED after $SECONDS s"' EXIT
for stage in "$@"; do
  case $stage in
    lint | gosec | unit | servers | matrix | burst | heavy | mutants | fuzz | tidy) ;;
    *) echo "scripts/test.sh: no stage $stage" >&2 && exit 64 ;;
  esac
  SECONDS=0
  echo "== stage: $stage"
  TIMEFORMAT="== stage $stage: %0R s; processor time %0U s, and %0S s of the system"
  time "$stage"
done
stage=
