#!/usr/bin/env bash
# dist.sh [FOLDER [OS/ARCH...]] builds what a release has, out of the last commit, into FOLDER
# (bin/dist), for all systems or those named:
#
#   urltree-VERSION-OS-ARCH.tar.gz   program, man pages, completions, documents
#   urltree_VERSION_ARCH.deb         the same for Debian, with crawler@.service (needs dpkg-deb)
#   SHA256SUMS
#
# The same commit, Go and dpkg give the same bytes, wherever and whenever they are built.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$(realpath -m "${1:-$root/bin/dist}")
targets=("${@:2}")
((${#targets[@]} > 0)) || targets=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
export LC_ALL=C TZ=UTC CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0 GOFLAGS=

# Go records a version in a clone only, not in a worktree of one; and what is not committed has none.
[ -z "$(git -C "$root" status --porcelain)" ] || echo "dist: what is not committed is left out" >&2
git clone -q "$root" "$work/source" 2>&1 | grep -v 'shallow' >&2 || true
cd "$work/source"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

host=$(go env GOHOSTOS)/$(go env GOHOSTARCH) # its program makes man pages and completions
for target in $(printf '%s\n' "$host" "${targets[@]}" | sort -u); do
	GOOS=${target%/*} GOARCH=${target#*/} go build -trimpath -buildvcs=true -ldflags='-s -w' -o "$work/$target/crawler" ./cmd/crawler
done
host=$work/$host/crawler
version=$("$host" version | sed -n 's/^urltree //p')

# What all packages have.
common=$work/common
"$host" generate "$common/generated"
mkdir -p "$common/man" "$common/completions"
mv "$common"/generated/man1 "$common/man/"
mv "$common"/generated/* "$common/completions/"
rmdir "$common/generated"
cp -R README.md LICENSE CHANGELOG.md CONTRIBUTING.md docs "$common/"
{
	echo "The program has these modules and the library of Go built in."
	go version -m "$host" | awk '$1 == "dep" { print $2 }' | while read -r module; do
		folder=$(go list -m -f '{{.Dir}}' "$module")
		printf '\n---- %s\n\n' "$module"
		cat "$folder"/LICEN[CS]E*
	done
	printf '\n---- go\n\n'
	cat "$(go env GOROOT)/LICENSE"
} >"$common/LICENSES-OF-MODULES"

rm -rf "$out"
mkdir -p "$out"
for target in "${targets[@]}"; do
	name=urltree-$version-${target/\//-}
	mkdir "$work/$name"
	cp -R "$common/." "$work/$target/crawler" "$work/$name/"
	[[ $target != linux/* ]] || cp packaging/crawler@.service "$work/$name/"
	tar -C "$work" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
		-cf - "$name" | gzip -9n >"$out/$name.tar.gz"
done

maintainer=$(sed -n 's/^Maintainer: //p' packaging/debian/control)

# deb ARCH makes the package.
deb() {
	local arch=$1 tree=$work/deb-$1 doc=$work/deb-$1/usr/share/doc/urltree page
	# A build between releases counts as older than the next release: 0.0.0-2026... is 0.0.0~2026...
	local debian=${version/-/\~}
	debian=${debian//-/.}
	install -D -m 755 "$work/linux/$arch/crawler" "$tree/usr/bin/crawler"
	install -D -m 644 packaging/crawler@.service "$tree/lib/systemd/system/crawler@.service"
	for page in "$common"/man/man1/*; do
		install -d "$tree/usr/share/man/man1"
		gzip -9n <"$page" >"$tree/usr/share/man/man1/${page##*/}.gz"
	done
	install -D -m 644 "$common/completions/bash/crawler" "$tree/usr/share/bash-completion/completions/crawler"
	install -D -m 644 "$common/completions/zsh/_crawler" "$tree/usr/share/zsh/vendor-completions/_crawler"
	install -D -m 644 "$common/completions/fish/crawler.fish" "$tree/usr/share/fish/vendor_completions.d/crawler.fish"
	install -D -m 644 packaging/debian/copyright "$doc/copyright"
	printf '%s\n' "urltree ($debian) unstable; urgency=medium" '' '  * CHANGELOG.md says what is different.' '' \
		" -- $maintainer  $(date -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
	gzip -9n <CHANGELOG.md >"$doc/CHANGELOG.md.gz"
	gzip -9n <"$common/LICENSES-OF-MODULES" >"$doc/LICENSES-OF-MODULES.gz"
	cp -R README.md docs "$doc/"
	install -d "$tree/etc/crawler" "$tree/DEBIAN"
	install -m 755 packaging/debian/{postinst,prerm,postrm} "$tree/DEBIAN/"
	(cd "$tree" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
	sed -e "s/@VERSION@/$debian/" -e "s/@ARCH@/$arch/" \
		-e "s/@SIZE@/$(find "$tree/usr" "$tree/lib" -type f -printf '%s\n' | awk '{ n += $1 } END { print int(n / 1024) + 1 }')/" \
		packaging/debian/control >"$tree/DEBIAN/control"
	find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group -Zgzip --build "$tree" "$out/urltree_${debian}_$arch.deb" >/dev/null
}
for target in "${targets[@]}"; do
	[[ $target == linux/* ]] || continue
	if command -v dpkg-deb >/dev/null; then
		deb "${target#*/}"
	else
		echo "dist: no Debian package for $target: dpkg-deb is not installed" >&2
	fi
done

cd "$out"
shopt -s nullglob
sha256sum -- *.tar.gz *.deb >SHA256SUMS
cat SHA256SUMS
