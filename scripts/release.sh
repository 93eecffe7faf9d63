#!/usr/bin/env bash
# Prepares a release: scripts/release.sh VERSION
# All modules of this repository but examples and test are released, at one version. That version
# goes into go.work and every go.mod, and the checksums of our modules go into every
# go.sum; this is one commit, with a tag for each module. All the work is done in
# another worktree: until it has succeeded, branch and tags stay as they are. Pushing
# is left to the person.
set -euo pipefail
cd "$(dirname "$0")/.."

root=github.com/rota-dev/rota
version=${1:-}

refuse() {
  echo "release: $*" >&2
  exit 64
}

number='(0|[1-9][0-9]*)'
word='[0-9A-Za-z]+'
# From v2 on, the paths of our modules would have to end in /v2.
[[ $version =~ ^v[01]\.$number\.$number(-$word([.-]$word)*)?$ && $version != v0.0.0 ]] ||
  refuse "VERSION is \"$version\": write v0.X.Y or v1.X.Y, such as v0.3.0 or v0.3.0-rc.1"
[ -z "$(git status --porcelain)" ] ||
  refuse "the working tree has changes: commit or remove them (git status)"

# Drivers require the root, and commands require drivers: in this order the checksums
# that a module needs are known.
modules=(. $(git ls-files 'drivers/**/go.mod' 'cmd/**/go.mod' | grep -v /testdata/ | xargs dirname | sort -r))
tag_of() { if [ "$1" = . ]; then echo "$version"; else echo "$1/$version"; fi; }
path_of() { if [ "$1" = . ]; then echo "$root"; else echo "$root/$1"; fi; }
tags=()
for mod in "${modules[@]}"; do tags+=("$(tag_of "$mod")"); done
for tag in "${tags[@]}"; do
  if git rev-parse -q --verify "refs/tags/$tag" >/dev/null; then
    refuse "there is a tag $tag: choose another version"
  fi
done

here=$PWD
tmp=$(mktemp -d)
trap 'git -C "$here" worktree remove --force "$tmp/tree" 2>/dev/null; rm -rf "$tmp"' EXIT
git worktree add --quiet --detach "$tmp/tree"
git init --quiet --bare "$tmp/published"
cd "$tmp/tree"

# set_versions writes the version wherever one of our modules requires or replaces
# another, and takes the checksums of former versions out.
set_versions() {
  local file
  for file in go.work $(git ls-files '*go.mod' '*go.sum' | grep -v /testdata/); do
    case $file in
      *go.sum) sed -E "\\#^$root(/[^ ]*)? #d" "$file" ;;
      *) sed -E "s#(^|[[:space:]])($root(/[^ ]*)?) v[^ ]+#\\1\\2 $version#" "$file" ;;
    esac >"$tmp/file"
    cat "$tmp/file" >"$file"
  done
}

# add_sums adds to the go.sum of a module the checksums of those that it requires.
sums=
add_sums() {
  local path rest
  [ "$1" != . ] || return 0
  while read -r path rest; do
    if grep -qE "(^|[[:space:]])$path v" "$1/go.mod"; then echo "$path $rest"; fi
  done <<<"$sums" | LC_ALL=C sort -s -t ' ' -k 1,1 - "$1/go.sum" >"$tmp/file"
  cat "$tmp/file" >"$1/go.sum"
}

# publish makes a module of the commit, as the go command will once the tag is
# pushed: by git, from a repository that stands in for the published one, into a
# module cache of its own.
publish() {
  local path facts
  path=$(path_of "$1")
  git push --quiet --no-verify "$tmp/published" "HEAD:refs/tags/$(tag_of "$1")"
  facts=$(env GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$tmp/published.insteadOf" GIT_CONFIG_VALUE_0="https://$root" \
    GOWORK=off GOPROXY=direct GONOPROXY= GOSUMDB=off GOMODCACHE="$tmp/cache" GOFLAGS=-modcacherw \
    go mod download -json "$path@$version")
  sums+=$(sed -n "s|^.*\"Sum\": \"\\(.*\\)\".*|$path $version \\1|p; s|^.*\"GoModSum\": \"\\(.*\\)\".*|$path $version/go.mod \\1|p" <<<"$facts")$'\n'
}

# resolves sees that a module finds all it imports, without go.work. Our own modules
# come from where they were published just now, the others from the module cache.
resolves() {
  (cd "$1" && env GOWORK=off GOMODCACHE="$tmp/cache" GOFLAGS=-modcacherw GONOPROXY= \
    GOPROXY="file://$tmp/cache/cache/download,file://$cache/cache/download,$proxy" \
    go list -deps ./... >/dev/null 2>"$tmp/said" || { cat "$tmp/said" >&2 && exit 1; })
}

cache=$(go env GOMODCACHE)
proxy=$(go env GOPROXY)
echo "-- $version into go.work, every go.mod and every go.sum"
set_versions
git commit --quiet --all --message "release: $version"
for mod in "${modules[@]}"; do
  add_sums "$mod"
  git commit --quiet --amend --no-edit --all
  publish "$mod"
done
for mod in examples test; do
  add_sums "$mod"
done
git commit --quiet --amend --no-edit --all
for mod in "${modules[@]}"; do
  echo "-- $(path_of "$mod") $version resolves"
  resolves "$mod"
done
commit=$(git rev-parse HEAD)

cd "$here"
git merge --quiet --ff-only "$commit"
for tag in "${tags[@]}"; do
  git tag --annotate --message "rota $version" "$tag" "$commit"
  echo "-- tag $tag"
done
echo "Prepared, not pushed. Run make test, then: git push --atomic origin HEAD ${tags[*]}"
echo "To take it back: git tag -d ${tags[*]} && git reset --keep HEAD~1"
