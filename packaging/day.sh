#!/usr/bin/env bash
# Plays a user's day with the Debian package: builds what a release has, installs it, crawls a web on
# a loopback address, stops, goes on, looks, reports, runs the service's command line, upgrades and
# removes. It installs and purges the package urltree on this machine, so it needs root, and does
# not begin where that is installed already. day.sh FOLDER takes what dist.sh has built there.
set -euo pipefail

(($# == 0)) || set -- "$(realpath "$1")"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
skip() {
	echo "test-dist: skipped: $*"
	exit 0
}
((EUID == 0)) || skip "needs root, to install a package"
command -v dpkg-deb >/dev/null || skip "dpkg is not installed"
! dpkg -s urltree >/dev/null 2>&1 || skip "urltree is installed here"
! command -v crawler >/dev/null || skip "another crawler is installed here: $(command -v crawler)"
! getent passwd _crawler >/dev/null || skip "there is a user _crawler already"
for path in /etc/crawler /var/lib/crawler; do
	[[ ! -e $path ]] || skip "$path is there already"
done

day=$(mktemp -d) instance=day-$$
chmod 755 "$day"
installed=
cleanup() {
	[[ -z ${site:-} ]] || kill "$site" 2>/dev/null || true
	if [[ -n $installed ]]; then
		dpkg --purge urltree >/dev/null 2>&1 || true
		rm -rf /etc/crawler "/var/lib/crawler"
		userdel _crawler 2>/dev/null || true
	fi
	rm -rf "$day"
}
trap cleanup EXIT
step() { printf '== %3d s  %s\n' "$SECONDS" "$*"; }
fail() {
	echo "test-dist: line ${BASH_LINENO[0]}: $*" >&2
	exit 1
}
trap 'echo "test-dist: line $LINENO: failed: $BASH_COMMAND" >&2' ERR

# says TEXT COMMAND... checks that a command succeeds and prints a line with the text.
says() {
	local text=$1 printed
	shift
	printed=$("$@" 2>&1) || fail "$* ends with $?: $printed"
	[[ $printed == *"$text"* ]] || fail "$* does not say \"$text\": $printed"
}
# exits CODE COMMAND... checks the exit code; what the command prints is in $day/printed.
exits() {
	local want=$1 code=0
	shift
	"$@" >"$day/printed" 2>&1 || code=$?
	((code == want)) || fail "$* ends with $code, not $want: $(cat "$day/printed")"
}
# in_shell runs a function in a shell of its own.
in_shell() ( "$@" )
# number STATE TREE: the number of URLs in a state.
number() { crawler export -tree "$2" -state "$1" 2>/dev/null | grep -c '^http' || true; }
# wait_for PAGES TREE PID waits until a crawl, whose log is $day/log, has stored so many pages.
wait_for() {
	local until=$((SECONDS + 600))
	# Whoever looks before the crawl has the tree keeps it from beginning.
	until [[ -S $2/ctl.sock ]] && (($(number stored "$2") >= $1)); do
		kill -0 "$3" 2>/dev/null || fail "the crawl has ended before it had $1 pages: $(cat "$day/log")"
		((SECONDS < until)) || fail "the crawl has not $1 pages after ten minutes"
		sleep 0.1
	done
}
ours() { find /etc /usr /lib/ /var/lib /var/cache \( -path '/var/lib/dpkg' -o -path /usr/local \) -prune -o \( -name '*crawler*' -o -name '*urltree*' \) -print | sort -u; }

dist=${1:-$day/dist}
if (($# == 0)); then
	step "make dist; one system once more: the same bytes"
	packaging/dist.sh "$dist" >/dev/null
	(umask 077 && TZ=Asia/Tokyo packaging/dist.sh "$day/again" "linux/$(go env GOARCH)" >/dev/null 2>&1)
	[[ $(grep -cxFf "$day/again/SHA256SUMS" "$dist/SHA256SUMS") == 2 ]] || fail "two builds of one commit differ"
	(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
	for target in linux-amd64 linux-arm64 darwin-amd64 darwin-arm64; do
		tar -tzf "$dist"/urltree-*-"$target".tar.gz >"$day/list"
		for file in crawler README.md LICENSE CHANGELOG.md man/man1/crawler.1 man/man1/crawler-broken.1 \
			completions/bash/crawler completions/zsh/_crawler completions/fish/crawler.fish; do
			grep -q "^urltree-[^/]*-$target/$file$" "$day/list" || fail "no $file for $target"
		done
	done
fi
go build -o "$day/site" ./packaging/site
program=$(sed -n 's,^COPY --from=build /source/\([^ ]*\) .*,\1,p' packaging/Dockerfile)
rm -f "$program"
eval "$(sed -n 's/^RUN \(make .*\)/\1/p' packaging/Dockerfile)" >/dev/null
[[ -x $program ]] || fail "the Dockerfile does not build $program"

step "install"
before=$(ours)
arch=$(dpkg --print-architecture)
deb=$(echo "$dist"/urltree_*_"$arch".deb)
[[ -f $deb ]] || skip "there is no package for $arch"
installed=yes
dpkg --path-include='/usr/share/man/*' --path-include='/usr/share/doc/*' -i "$deb" >/dev/null
[[ $(command -v crawler) == /usr/bin/crawler ]] || fail "crawler is $(command -v crawler)"
says "commit $(git rev-parse HEAD) of " crawler version
! ldd /usr/bin/crawler >/dev/null 2>&1 || fail "the program is not static"
[[ -z $(dpkg --verify urltree) ]] || fail "$(dpkg --verify urltree)"
if command -v man >/dev/null; then
	says "crawl the web into a tree" env MANPAGER=cat man crawler
	says "-fail" env MANPAGER=cat man crawler-broken
else
	echo "man is not installed: the pages are not looked at"
fi
says "/usr/share/bash-completion/completions/crawler" dpkg -L urltree
says "export" bash -c 'source /usr/share/bash-completion/completions/crawler; COMP_WORDS=(crawler exp) COMP_CWORD=1; _crawler; echo "${COMPREPLY[@]}"'
if [[ -f /usr/share/bash-completion/bash_completion ]]; then # it finds the file by itself
	says "_crawler crawler" bash -c 'source /usr/share/bash-completion/bash_completion; _completion_loader crawler; complete -p crawler'
fi

step "crawl, Ctrl-C in the middle"
mkfifo "$day/quit"
"$day/site" <"$day/quit" >"$day/url" &
site=$!
exec 9>"$day/quit"
until [[ -s $day/url ]]; do sleep 0.05; done
url=$(cat "$day/url")
export URLTREE_RETRIES=0 # what fails here does so again
mkdir "$day/home"
cd "$day/home"
set -m # in its own group, as a terminal has it: otherwise it would ignore the signal
# The signal may be ignored here, as in a background job, and that is inherited.
env --default-signal=INT crawler -scope host -edges -delay 500ms "$url" 2>../log & # minutes, were it not stopped
crawl=$!
set +m
wait_for 10 iut $crawl
says "going on" crawler stats
kill -INT -- -$crawl
wait $crawl || fail "a crawl that was stopped ends with $?: $(cat ../log)"
some=$(number stored iut)
((some >= 10)) || fail "$some pages"
[[ $(wc -l <res.txt) == "$some" && -s res2.txt && -s statistics.txt && -s hourly_statistics.txt ]] || fail "the results are not those of $some pages: $(ls)"

step "go on with plain crawler"
export URLTREE_DELAY=5ms # so that this does not take half a minute
exits 0 crawler
grep -q 'nothing left' "$day/printed" || fail "$(cat "$day/printed")"
all=$(number stored iut)
((all > some && $(number pending iut) == 0)) || fail "$some pages, then $all; $(number pending iut) pending"
[[ $(wc -l <res.txt) == "$all" ]] || fail "res.txt has not $all lines"
says "-scope" crawler options
says "faults: 0" crawler check

step "look, find broken links, export"
host=${url#http://}
says "${host%/}" crawler ls
says "stored" crawler stats
says "stored" crawler why "$url"
failed=$(crawler export -state failed -columns url | sed -n 2p)
says "$failed" crawler why "$failed"
exits 5 crawler broken -fail -output broken.txt
grep -qF "$failed" broken.txt || fail "broken does not name $failed"
for format in csv json html; do
	exits 0 crawler broken -format $format -output broken.$format
	grep -qF "$failed" broken.$format || fail "broken.$format does not name $failed"
done
for format in tsv csv jsonl; do
	exits 0 crawler export -format $format -columns url,title,bytes -state stored -output pages.$format
	[[ $(grep -c "$url" pages.$format) == "$all" ]] || fail "pages.$format has not $all pages"
done

step "two trees in one folder"
for name in A B; do
	exits 0 crawler -quiet -scope host -max-pages 10 -tree $name -output $name.tsv "$url"
done
for name in A B; do
	for file in $name.tsv ${name}2.tsv $name.statistics.txt $name.hourly_statistics.txt; do
		[[ -s $file ]] || fail "no $file"
	done
	says "faults: 0" crawler check -tree $name -output $name.tsv
done

step "the service's command, stopped, upgraded and started again"
unit=/lib/systemd/system/crawler@.service
setting() { sed -n -e "s/%i/$instance/g" -e 's,%S,/var/lib,g' -e "s/^$1=//p" "$unit"; }
# service [COMMAND...] runs the command line of the unit as systemd would, as far as that goes
# without it; below COMMAND if there is one.
service() {
	local user file name value args=() env=("PATH=$PATH")
	user=$(setting User) file=$(setting EnvironmentFile | sed s/^-//)
	while IFS='=' read -r name value; do
		case $name in
		ARGS) eval "args=($value)" ;;
		?*) env+=("$name=$value") ;;
		esac
	done <"$file"
	install -d -m "$(setting StateDirectoryMode)" -o "$user" -g "$user" "/var/lib/$(setting StateDirectory)"
	cd "$(setting WorkingDirectory)"
	umask "$(setting UMask)"
	# shellcheck disable=SC2046 # several words
	exec setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all \
		env -i "${env[@]}" "$@" $(setting ExecStart | sed 's/ \$ARGS$//') "${args[@]}"
}
# restarts CODE reports whether the unit starts again after an exit code.
restarts() {
	[[ $(setting Restart) == on-failure && $1 != 0 && " $(setting RestartPreventExitStatus) " != *" $1 "* ]]
}
[[ $(setting ExecStart) == '/usr/bin/crawler $ARGS' ]] || fail "ExecStart is $(setting ExecStart)"
tree=/var/lib/crawler/$instance/iut
printf 'ARGS=-scope host -exclude "/no such/" %s\nURLTREE_DELAY=100ms\nURLTREE_RETRIES=0\n' "$url" >/etc/crawler/$instance.conf
(service) 2>"$day/log" &
crawl=$!
wait_for 20 "$tree" $crawl
kill -TERM $crawl
wait $crawl || fail "the service ends with $? after SIGTERM: $(cat "$day/log")"
some=$(number stored "$tree")
dpkg -i "$deb" >/dev/null 2>&1 || fail "the package cannot be installed over itself"
! restarts 0 || fail "the unit starts again when the crawl has ended"
(service) 2>"$day/log" &
crawl=$!
wait_for $((some + 5)) "$tree" $crawl
kill -KILL $crawl
wait $crawl 2>/dev/null || restarts $? || fail "the unit does not start again after a kill"
trace=
if command -v strace >/dev/null && strace -f -o /dev/null true 2>/dev/null; then
	trace=/var/lib/crawler/$instance/trace
fi
sed -i s/100ms/5ms/ /etc/crawler/$instance.conf
exits 0 in_shell service ${trace:+strace -f -qq -o "$trace"}
[[ $(number stored "$tree") == "$all" ]] || fail "the service has $(number stored "$tree") pages, not $all"
[[ $(stat -c %U "$tree/index.db") == _crawler ]] || fail "the tree is not that of the service's user"

step "its exit codes, its cage"
printf 'ARGS=-zzz\n' >/etc/crawler/$instance.conf
exits 2 in_shell service
! restarts 2 || fail "the unit starts again after wrong usage"
echo damaged >"$tree/FORMAT"
: >/etc/crawler/$instance.conf
exits 3 in_shell service
! restarts 3 || fail "the unit starts again with a damaged tree"
printf 'ARGS=-tree other http://127.0.0.1:1/\n' >/etc/crawler/$instance.conf
exits 5 in_shell service
! restarts 5 || fail "the unit starts again where nothing came"
restarts 1 && restarts 4 || fail "the unit does not start again after a failure"
if command -v systemd-analyze >/dev/null; then
	problems=$(systemd-analyze verify "$unit" 2>&1 | grep -F crawler || true)
	[[ -z $problems ]] || fail "systemd-analyze verify: $problems"
	systemd-analyze security --offline=true --threshold=20 "$unit" >"$day/printed" || fail "$(tail -1 "$day/printed")"
	tail -1 "$day/printed"
	if [[ -n $trace ]]; then
		# set NAME prints the system calls of one of systemd's sets.
		set_of() {
			local name
			systemd-analyze syscall-filter "$1" | sed -e 1d -e '/#/d' -e 's/^ *//' | while read -r name; do
				if [[ $name == @* ]]; then set_of "$name"; else echo "$name"; fi
			done | sort -u
		}
		comm -23 <(set_of @system-service) <(set_of @privileged) | sort -u - <(set_of @default) >"$day/allowed"
		sed -n 's/^[0-9]* *\([a-z0-9_]*\)(.*/\1/p' "$trace" | sort -u >"$day/used"
		(($(wc -l <"$day/used") > 20)) || fail "strace has seen nothing: $(head -5 "$trace")"
		refused=$(comm -13 "$day/allowed" "$day/used")
		[[ -z $refused ]] || fail "the unit's SystemCallFilter refuses what the crawl needs: ${refused//$'\n'/ }"
		families=$(grep -o 'socket(AF_[A-Z0-9]*' "$trace" | sed 's/.*(//' | sort -u)
		for family in $families; do
			[[ " $(setting RestrictAddressFamilies) " == *" $family "* ]] || fail "the unit's RestrictAddressFamilies refuses $family"
		done
	else
		echo "strace is not installed or may not trace: the unit's system calls are not looked at"
	fi
else
	echo "systemd-analyze is not installed: the unit is not verified"
fi

step "remove, purge: the user's files stay"
dpkg -r urltree >/dev/null
hash -r
! command -v crawler >/dev/null || fail "there still is $(command -v crawler)"
dpkg -P urltree >/dev/null 2>&1
installed=yes # what is left is the user's, and goes with cleanup
[[ -f /etc/crawler/$instance.conf && -f $tree/index.db && -s res.txt && -f iut/index.db ]] || fail "purge has removed files of the user"
getent passwd _crawler >/dev/null || fail "the owner of the service's tree is gone"
[[ $(ours) == "$(printf '%s\n' "$before" /etc/crawler /var/lib/crawler | sort -u | sed '/^$/d')" ]] || fail "left behind: $(ours)"
rm -r /etc/crawler /var/lib/crawler
dpkg -i "$deb" >/dev/null
dpkg -P urltree >/dev/null
! getent passwd _crawler >/dev/null || fail "the service's user is left behind"
[[ $(ours) == "$before" ]] || fail "left behind: $(ours)"
installed=
step "done"
