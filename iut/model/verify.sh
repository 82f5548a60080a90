#!/usr/bin/env bash
# Checks the models of this folder with Spin: what should hold must hold, what should be reached
# must be reached, and every variant with a rule taken away (-DBREAK_x) must fail.
#
#   verify.sh         what takes two or three minutes on two cores; needs spin and gcc; with
#                     TEST_URLTREE_SHARE, as 1/4, only that share of it
#   verify.sh large   the same with more crawlers, pages, places and threads: half an hour, 4 GB
#   verify.sh keep    writes the trails that trails/ keeps anew
#
# Exit status 1 if anything came out otherwise. The trails in trails/ are compared with what the
# models give today, if Spin is of the version that made them.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# What must come of each variant: `holds`, `fails`, or `reached`, which is an assertion that is
# there to fail. Longest first. A trail is kept under the name behind `trail:`.
#
# Switches that say how to look: -DNP for cycles instead of assertions (without one, every run
# ends), -DLIVE for a claim about infinite runs, -DFAIR if every process gets its turn, -DJUDGE if
# a process of the model judges deadlocks, -DPART for as much as five minutes and a table of bits
# allow.
list() {
	cat <<-LIST
		holds   report -DLIVE
		holds   report
		holds   report -DLIVE -DFAIR -DCRAWLERS=2
		holds   buffer -DSTOP
		holds   buffer
		holds   buffer -DINTERVAL
		holds   buffer -DBURST
		holds   buffer -DONE
		holds   buffer -DONE -DSTOP
		holds   buffer -DONE -DBURST -DSTOP
		holds   buffer -DONE -DNP
		holds   buffer -DONE -DSTOP -DNP
		holds   crash
		holds   crash -DSECOND_LOOK
		holds   segments
		holds   cluster
		holds   cluster -DCUTS=1 -DMOVES=0 -DCRASHES=0 -DLOSSES=0 -DREPEATS=0
		holds   cluster -DMOVES=2 -DCRASHES=0 -DLOSSES=0 -DREPEATS=0
		holds   pools -DPRINTED -DBROADCAST -DROOM
		holds   pools -DPRINTED -DBROADCAST -DROOM -DURLS=7 -DNP
		holds   pools -DPRINTED -DBROADCAST -DJUDGE
		holds   pools -DDOWNLOADERS=3 -DPARSERS=2 -DQUEUE=2
		holds   pools -DURLS=15
		holds   pools -DNP
		holds   explore -DTHREADS=3
		holds   explore
		holds   explore -DNP -DFAIR
		holds   explore -DCOUNTERS -DTHREADS=3
		holds   batches -DCRAWLERS=3
		holds   batches -DCRAWLERS=3 -DNP
		holds   batches
		reached report -DREACH_crawlers
		reached report -DREACH_builders
		reached report -DREACH_duplicates
		reached report -DREACH_full
		reached cluster -DREACH_end
		fails   report -DNO_LOCK -DONLY_files trail:files
		fails   report -DNO_LOCK -DONLY_data trail:data
		fails   report -DNO_LOCK -DONLY_correct -DLIVE trail:correct
		fails   pools -DPRINTED -DBROADCAST trail:queues
		fails   pools -DPRINTED
		fails   pools -DPRINTED -DJUDGE
	LIST
	local file model
	for file in "$here"/*.pml; do
		model=$(basename "$file" .pml)
		grep -o 'BREAK_[a-z_][a-z_]*' "$file" | grep -v '^BREAK_x$' | sort -u | while read -r rule; do
			case $rule in
			BREAK_inverted) echo "fails $model -D$rule -DLIVE" ;;           # goes round for ever
			BREAK_ask_*) echo "fails $model -D$rule -DCUTS=1 -DMOVES=0 -DCRASHES=0 -DLOSSES=0 -DREPEATS=0" ;;
			BREAK_take_at_once) echo "fails $model -D$rule -DCUTS=1 -DCRASHES=0 -DLOSSES=0 -DREPEATS=0" ;;
			BREAK_any_marker) echo "fails $model -D$rule -DMOVES=2 -DCRASHES=0 -DLOSSES=0 -DREPEATS=0" ;;
			BREAK_number_again) echo "fails $model -D$rule -DMOVES=2 -DCRASHES=0 -DLOSSES=0" ;;
			BREAK_retry_visited) echo "fails $model -D$rule -DNP -DFAIR" ;; # so does this
			*) echo "fails $model -D$rule" ;;
			esac
		done
	done
}

large() {
	cat <<-LIST
		holds report -DLIVE -DFAIR
		holds report -DN=3
		holds report -DPAGES=3
		holds report -DPAGES=3 -DN=3
		holds report -DCRAWLERS=6 -DBUFFERS=3 -DPART
		holds buffer -DURLS=5
		holds buffer -DURLS=5 -DINTERVAL
		holds crash -DCRASHES=3 -DSTOPS=2
		holds pools -DURLS=15 -DDOWNLOADERS=3 -DPARSERS=2 -DQUEUE=2
		holds pools -DPRINTED -DBROADCAST -DROOM -DPARSERS=2
		holds explore -DTHREADS=4 -DERRORS=2
		holds explore -DTHREADS=3 -DERRORS=2 -DNP -DFAIR
		holds explore -DCOUNTERS -DTHREADS=4 -DERRORS=3
		holds batches -DCRAWLERS=4 -DURLS=9
		holds batches -DCRAWLERS=3 -DURLS=9 -DBATCH=3
	LIST
}

# trail NAME MODEL SWITCH... prints what happens on the way to the failure that pan has found, or
# compares it with what is kept.
trail() {
	local name=$1 model=$2 version kept="$here/trails/$1.txt"
	shift 2
	version=$(spin -V)
	{
		echo "# $model $*"
		echo "# ${version% -- *}"
		spin -t "$@" "$model.pml" | sed -n 's/^ *step: //p; /^spin: .*Error/d; s/^\t\t/= /p'
	} >trail.txt
	if [[ ${keep:-} ]]; then
		cp trail.txt "$kept"
	elif [[ $(sed -n 2p "$kept") == "# ${version% -- *}" ]] && ! cmp -s trail.txt "$kept"; then
		echo "trails/$name.txt is not what $model gives; if it should be another: verify.sh keep"
		return 1
	fi
}

# one WANT MODEL SWITCH... [trail:NAME] checks one variant and prints its line of the table.
one() {
	local want=$1 model=$2 name='' dir out optimise=-O2 got=? why='' build=(-DCOLLAPSE "-DMEMLIM=$memory") run=() safety=-DSAFETY
	shift 2
	if [[ ${!#} == trail:* ]]; then
		name=${!#}
		set -- "${@:1:$#-1}"
	fi
	[[ $want == holds ]] || optimise=-O1   # stops soon; compiling takes longest
	[[ $* == *-DLIVE* ]] && safety='' run+=(-a)
	[[ $* == *-DNP* ]] && safety=-DNP run+=(-l)
	[[ $* == *-DFAIR* ]] && build+=(-DNFAIR=3) run+=(-f)
	[[ $* == *-DJUDGE* ]] && run+=(-E)
	[[ $* == *-DPART* ]] && build=(-DBITSTATE) run+=(-w32 -Q5)
	[[ -z $safety ]] || build+=("$safety")
	dir=$(mktemp -d "$work/XXXXXX")
	cd "$dir"
	cp "$here/$model.pml" .
	spin -a "$@" "$model.pml" >spin.out 2>&1 || { cat spin.out; exit 1; }
	gcc "$optimise" -w "${build[@]}" -o pan pan.c
	{ time ./pan -m100000 "${run[@]}" >pan.out 2>&1 || true; } 2>time.out
	out=$(cat pan.out)
	if [[ $out == *"errors: 0"* && ! $out =~ "Search not completed"|"search depth too small" ]]; then
		got=holds
	elif [[ $out == *"errors: 0"* && $* == *-DPART* ]]; then
		got=holds why='in part'
	elif [[ $out =~ pan:1:\ (assertion\ violated|invalid\ end\ state|non-progress\ cycle|acceptance\ cycle) ]]; then
		got=fails why=${BASH_REMATCH[1]}
		[[ $want == reached && $why == assertion* ]] && got=reached why=
	fi
	if [[ $* =~ BREAK_[a-z_]+ ]]; then   # the line that takes the rule away
		why+=", $model.pml:$(grep -n "^#.*${BASH_REMATCH[0]}\>" "$model.pml" | tail -1 | cut -d: -f1)"
	fi
	awk -v name="$model $*" -v got="$got" -v why="$why" -v ok="$([[ $got == "$want" ]] && echo ok || echo WRONG)" '
		/states, stored/ { states = $1 }
		/transitions \(/ { transitions = $1 }
		/total actual memory/ { memory = $1 }
		FILENAME == "time.out" { time += $1 + $2 }
		END { printf "%-5s %-52s %-7s %10d %11d %6.0f %7.1f  %s\n", ok, name, got, states, transitions, memory, time, why }
	' pan.out time.out
	[[ $got == "$want" ]]
	[[ -z $name ]] || trail "${name#trail:}" "$model" "$@"
	rm -rf "$dir"
}

case ${1:-} in
one)
	shift
	one "$@"
	exit
	;;
large) lines=$(large) memory=8000 jobs=1 ;;
keep) lines=$(list | grep trail:) memory=3000 jobs=2 keep=yes ;;
'') lines=$(list | "$here/../../internal/testshare/share.sh") memory=3000 jobs=2 ;;
*)
	sed -n '2,/^#$/p' "${BASH_SOURCE[0]}"
	exit 2
	;;
esac

work=$(mktemp -d)
export work memory keep=${keep:-} TIMEFORMAT='%U %S' # processor time: others may be at work
trap 'rm -rf "$work"' EXIT

printf '%-5s %-52s %-7s %10s %11s %6s %7s  %s\n' '' model 'came' states transitions MB 'CPU s' 'stopped by'
start=$SECONDS
status=0
xargs -P "$jobs" -L 1 "${BASH_SOURCE[0]}" one <<<"$lines" || status=1
printf 'all in %d s\n' $((SECONDS - start))
if ((status != 0)); then
	echo "a model did not come out as it must" >&2
fi
exit "$status"
