#!/usr/bin/env bash
# Breaks a copy of this repository by each patch in this folder, or by those named, and demands
# that a test notices: with the patch it must fail, and not because something does not compile;
# without it must pass. A patch that does not apply is an error: make it anew.
#
# Of all patches only the share that TEST_URLTREE_SHARE names is taken, as 1/4; by default all.
#
# A patch begins with two lines:
#
#   # Test: PACKAGE TEST, or TEST/PART
#   # What it breaks.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
patches=("$here"/*.patch)
if [[ ${TEST_URLTREE_SHARE:-} && $# == 0 ]]; then
	mapfile -t patches < <(printf '%s\n' "${patches[@]}" | "$here/../testshare/share.sh")
fi
if (($# > 0)); then
	patches=("${@/#/$here/}")
	patches=("${patches[@]/%/.patch}")
fi

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -C "$root" --exclude=./.git --exclude=./bin -cf - . | tar -C "$copy" -xf -
cd "$copy"
export GIT_CEILING_DIRECTORIES=${copy%/*}    # a repository above is none of ours
export GOFLAGS="${GOFLAGS:-} -trimpath"      # packages that no patch touches are built once
export CGO_ENABLED=0                         # and as make build builds them

run() { go test -count=1 -timeout 5m "$@" 2>&1; }

failed=0
complain() {
	echo "$1"
	failed=1
}

declare -A tests # of each package, as a pattern
for patch in "${patches[@]}"; do
	if ! [[ $(head -n 1 "$patch") =~ ^"# Test: "(\./[a-z/]+)" "(Test[A-Za-z]+)(/[a-z]+)?$ ]]; then
		echo "$patch: the first line names no package and test" >&2
		exit 1
	fi
	tests[${BASH_REMATCH[1]}]+="|${BASH_REMATCH[2]}"
done
for package in "${!tests[@]}"; do
	output=$(run -v -run "^(${tests[$package]#|})\$" "$package") || true
	for test in ${tests[$package]//|/ }; do
		grep -q "^--- PASS: $test " <<<"$output" || complain "$package $test does not pass without a patch"
	done
done

for patch in "${patches[@]}"; do
	read -r _ _ package test <"$patch"
	name=$(basename "$patch" .patch)
	if ! git apply "$patch"; then
		complain "$name: does not apply"
		continue
	fi
	if output=$(run -run "^$test\$" "$package"); then
		complain "$name: $test passes all the same"
	elif grep -q "^ *--- FAIL: $test " <<<"$output"; then
		printf '%-24s %-30s %s\n' "$name" "$test" "$(sed -n '2s/^# //p' "$patch")"
	else
		complain "$name: $test does not get as far as to fail:"
		tail -n 20 <<<"$output"
	fi
	git apply -R "$patch"
done

if ((failed)); then
	exit 1
fi
echo "${#patches[@]} changes, each noticed by its test"
