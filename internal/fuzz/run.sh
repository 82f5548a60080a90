#!/usr/bin/env bash
# Fuzzes every target of the repository for TIME each: run.sh TIME. Stops at the first that fails.
# With TEST_URLTREE_SHARE, as 1/4, only that share of the targets is fuzzed.
#
# Go before 1.27 at times ends a target with an error where it only has used up its time
# (go.dev/issue/75804). It says no more than "context deadline exceeded" then, and keeps no input.
# That is not a failure.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# timeIsUp tells whether all that a failed target complained of is the end of its time.
timeIsUp() {
	local said
	said=$(sed -n '/^--- FAIL: /,$p' "$log")
	[[ $said =~ ^"--- FAIL: Fuzz"[^[:space:]]*" ("[0-9.]+"s)"$'\n'"    context deadline exceeded"$'\n'"FAIL"$'\n' ]] &&
		! grep -q 'Failing input' "$log"
}

# `go test -list` prints the names of a package, then a line that names the package.
list=$(go test -list '^Fuzz' ./...) || { echo "$list"; exit 1; }
awk '/^Fuzz/ {name[++n] = $1} /^ok/ {for (i = 1; i <= n; i++) print $2, name[i]; n = 0}' <<<"$list" | internal/testshare/share.sh |
	while read -r package target; do
		echo "fuzz $package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$package" </dev/null 2>&1 | tee "$log" || timeIsUp
	done
