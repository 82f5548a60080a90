#!/usr/bin/env bash
# Checks the models of this folder with Spin: all that should hold must hold, and every variant
# with a rule taken away (-DBREAK_x) must fail. Needs spin and gcc; takes under two minutes on
# two cores. Exit status 1 if anything came out otherwise.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# What must hold: a model, and its switches. NP asks for cycles instead of assertions: without
# one, every run ends.
good() {
	cat <<-LIST
		buffer -DSTOP
		buffer
		buffer -DINTERVAL
		buffer -DONE
		buffer -DONE -DSTOP
		buffer -DONE -DNP
		buffer -DONE -DSTOP -DNP
		crash
		crash -DSECOND_LOOK
	LIST
}

broken() {
	local model
	for model in buffer crash; do
		grep -o 'BREAK_[a-z_][a-z_]*' "$here/$model.pml" | grep -v '^BREAK_x$' | sort -u | sed "s/.*/$model -D&/"
	done
}

# one MODEL SWITCH... checks one variant and prints its line of the table.
one() {
	local model=$1 dir out optimise=-O2 want=holds got=? why= build=-DSAFETY run=()
	shift
	[[ $* == *-DBREAK_* ]] && want=fails optimise=-O1   # they stop soon; compiling takes longest
	[[ $* == *-DNP* ]] && build=-DNP run=(-l)
	dir=$(mktemp -d "$work/XXXXXX")
	cd "$dir"
	spin -a "$@" "$here/$model.pml" >spin.out 2>&1 || { cat spin.out; exit 1; }
	gcc "$optimise" -w "$build" -DCOLLAPSE -DMEMLIM=2000 -o pan pan.c
	./pan -m10000 "${run[@]}" >pan.out 2>&1 || true
	out=$(cat pan.out)
	if [[ $out == *"errors: 0"* && ! $out =~ "Search not completed"|"search depth too small" ]]; then
		got=holds
	elif [[ $out =~ pan:1:\ (assertion\ violated|invalid\ end\ state|non-progress\ cycle) ]]; then
		got=fails
		why=${BASH_REMATCH[1]}
	fi
	awk -v name="$model $*" -v got="$got" -v why="$why" -v ok="$([[ $got == "$want" ]] && echo ok || echo WRONG)" '
		/states, stored/ { states = $1 }
		/transitions \(/ { transitions = $1 }
		/total actual memory/ { memory = $1 }
		/elapsed time/ { time = $4 }
		END { printf "%-5s %-38s %s %10d %11d %7.0f %6.1f  %s\n", ok, name, got, states, transitions, memory, time, why }
	' pan.out
	rm -rf "$dir"
	[[ $got == "$want" ]]
}

if [[ ${1:-} == one ]]; then
	shift
	one "$@"
	exit
fi

work=$(mktemp -d)
export work
trap 'rm -rf "$work"' EXIT

printf '%-5s %-38s %s %10s %11s %7s %6s  %s\n' '' model 'came ' states transitions 'MB' 's' 'stopped by'
start=$SECONDS
status=0
{ good; broken; } | xargs -P 2 -L 1 "${BASH_SOURCE[0]}" one || status=1
printf 'all in %d s\n' $((SECONDS - start))
if ((status != 0)); then
	echo "a model did not come out as it must" >&2
fi
exit "$status"
