#!/usr/bin/env bash
# Builds kube-apiserver and kube-controller-manager below build/k8s, unless they are there,
# and prints their folder: eleven minutes of a processor. k8s.io/kubernetes requires its own parts at a version that
# exists nowhere; each is published under a version of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

version=1.36.3
bin=$PWD/build/k8s/$version
if [ -x "$bin/kube-apiserver" ] && [ -x "$bin/kube-controller-manager" ]; then
  echo "$bin"
  exit
fi
export GOWORK=off GOFLAGS=-mod=mod CGO_ENABLED=0
tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT
cd "$tmp"
mod=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
{
  printf 'module k8s\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
  sed -n 's|^[[:space:]]*\(k8s.io/[a-z0-9-]*\) v0\.0\.0\( .*\)\{0,1\}$|\1|p' "$mod" | sort -u | while read -r part; do
    printf '\t%s => %s v0.%s\n' "$part" "$part" "${version#1.}"
  done
  printf ')\n'
} >go.mod
printf '//go:build tools\n\npackage k8s\n\nimport (\n\t_ "k8s.io/kubernetes/cmd/kube-apiserver"\n\t_ "k8s.io/kubernetes/cmd/kube-controller-manager"\n)\n' >k8s.go
mkdir -p "$bin"
for name in kube-apiserver kube-controller-manager; do
  echo "-- build $name $version" >&2
  go build -trimpath -ldflags "-s -w" -o "$bin/$name" "k8s.io/kubernetes/cmd/$name"
done
echo "$bin"
