#!/usr/bin/env bash
# Installs the real servers that the tests use, as far as it may, and prints one
# SKIP line for each that is still missing. It never fails for want of a server:
# the tests skip without it, or fail with ROTA_REQUIRE_REAL=1.
#
# By apt as root on Debian or Ubuntu; the jars of Kafka and ActiveMQ by Maven into the
# user's cache directory. ROTA_AUTO_DEPS=0 turns both off.
set -euo pipefail
cd "$(dirname "$0")/.."

tmp=$(mktemp -d)
policy=
cleanup() {
  [ -z "$policy" ] || rm -f "$policy"
  rm -rf "$tmp"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

go build -o "$tmp/missing" ./test/missing

# quietly shows what a command printed only if it failed.
quietly() {
  "$@" >"$tmp/out" 2>&1 </dev/null || {
    cat "$tmp/out"
    echo "NOT INSTALLED: this failed: $*"
    return 1
  }
}

debian() {
  [ -r /etc/os-release ] && (. /etc/os-release && [[ " $ID ${ID_LIKE:-} " =~ \ (debian|ubuntu)\  ]]) && command -v apt-get >/dev/null
}

# A package may start its service at once; the tests want none of those. With
# this file in place apt starts nothing.
hold_services() {
  local file=/usr/sbin/policy-rc.d
  [ ! -e "$file" ] || return 0
  policy=$file
  printf '#!/bin/sh\nexit 101\n' >"$file"
  chmod 755 "$file"
}

install_packages() {
  local pkg
  hold_services
  export DEBIAN_FRONTEND=noninteractive
  quietly apt-get -q update || true # the lists that are there may do
  quietly apt-get -q install -y --no-install-recommends "$@" && return
  # One that this release does not have must not keep the others out.
  for pkg in "$@"; do
    quietly apt-get -q install -y --no-install-recommends "$pkg" || true
  done
}

# install_jars leaves nothing half done behind: the directory appears complete.
install_jars() {
  local server=$1 dir=$2 parts
  mkdir -p "$(dirname "$dir")"
  parts=$(mktemp -d "$dir.XXXXXX")
  if quietly mvn -B -q -f "test/$server/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$parts"; then
    chmod 755 "$parts"
    rm -rf "$dir"
    mv -T "$parts" "$dir"
  else
    rm -rf "$parts"
  fi
}

if [ "${ROTA_AUTO_DEPS:-1}" != 0 ]; then
  packages=$("$tmp/missing" apt)
  if [ -n "$packages" ] && [ "$(id -u)" = 0 ] && debian; then
    echo "the tests run real servers; installing what is missing by apt, without starting any service (ROTA_AUTO_DEPS=0 turns this off):" $packages
    install_packages $packages
  fi
  "$tmp/missing" jars >"$tmp/jars"
  while read -r server jars; do
    echo "the tests run a real $server; copying its jars by Maven, less than 50 MB, into $jars (ROTA_AUTO_DEPS=0 turns this off)"
    install_jars "$server" "$jars"
  done <"$tmp/jars"
fi
"$tmp/missing"
