# Sourced by tools/setup: downloads the original archive of a source package from the distribution's apt sources. The
# machine's own apt set-up stays as it is. Uses say and quietly of tools/setup.
etc=/etc  # tests set another folder

# distribution_name NAME: prints ID or VERSION_CODENAME of this machine, as in "debian" and "trixie".
distribution_name() { (. "$etc/os-release" && printf '%s\n' "${!1:-}"); }

# releases: prints this machine's release, then other releases of the distribution whose trilinos has a usable Kokkos. A
# mirror that has lost the archive of one release may still have the archive of another.
releases() {
  local own others=
  own=$(distribution_name VERSION_CODENAME)
  case $(distribution_name ID) in
    debian) others="trixie bookworm" ;;
    ubuntu) others="noble jammy" ;;
  esac
  printf '%s\n' "${own:-stable}"
  tr ' ' '\n' <<<"$others" | grep -vx "${own:-stable}" || true
}

# write_source_lists DIR RELEASE: writes the machine's apt sources, changed to RELEASE, as deb-src to DIR/parts.
# Writes only those of the distribution (its suites, main or universe), because a vendor may have no source packages.
write_source_lists() {
  local dir=$1 release=$2 codename file
  codename=$(releases | head -n 1)
  rm -rf "$dir/parts" "$dir/lists"
  mkdir -p "$dir/parts" "$dir/lists/partial" "$dir/cache/archives/partial"
  local suites='
    function ours(suite) { return suite ~ "^(" codename "(-updates|-security|/updates)?|stable|testing|unstable|sid)$" }
    function renamed(suite) {
      if (release != codename && ours(suite)) sub(/^[a-z]+/, release, suite)
      return suite
    }'
  for file in "$etc"/apt/sources.list "$etc"/apt/sources.list.d/*.list; do
    [ -r "$file" ] || continue
    awk -v codename="$codename" -v release="$release" "$suites"'
      /^[ \t]*deb(-src)?[ \t]/ {
        options = match($0, /\[[^]]*\]/) ? substr($0, RSTART, RLENGTH) " " : ""
        sub(/\[[^]]*\]/, ""); $1 = $1
        if (ours($3) && /[ \t](main|universe)([ \t]|$)/) {
          $1 = "deb-src"; $2 = options $2; $3 = renamed($3)
          print
        }
      }' "$file"
  done | sort -u >"$dir/parts/own.list"
  for file in "$etc"/apt/sources.list.d/*.sources; do
    [ -r "$file" ] || continue
    awk -v RS= -v codename="$codename" -v release="$release" "$suites"'
      {
        keep = 0; good = 0; n = split($0, lines, "\n")
        for (i = 1; i <= n; ++i) {
          m = split(lines[i], f, /[ \t]+/)
          if (tolower(f[1]) == "suites:") {
            lines[i] = f[1]
            for (j = 2; j <= m; ++j) { if (ours(f[j])) keep = 1; lines[i] = lines[i] " " renamed(f[j]) }
          }
          if (tolower(f[1]) == "components:") for (j = 2; j <= m; ++j) if (f[j] ~ /^(main|universe)$/) good = 1
          if (tolower(f[1]) == "types:") lines[i] = "Types: deb-src"
        }
        if (keep && good) { for (i = 1; i <= n; ++i) print lines[i]; print "" }
      }' "$file"
  done >"$dir/parts/own.sources"
}

# original_archive PACKAGE DIR: prints the path of the archive that download_source left in DIR; fails without one.
original_archive() { compgen -G "$2/$1_*.orig.tar.*" | grep -v '\.asc$' | head -n 1 | grep .; }

# download_source PACKAGE DIR: downloads the original archive of PACKAGE into DIR, from the first release that has one,
# the newest version first. Prints what it skips and takes. Downloads no other file, because a mirror may lack it.
download_source() {
  local package=$1 dir=$2 release version versions
  local private=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$dir/parts"
                 -o "Dir::State::Lists=$dir/lists" -o "Dir::Cache=$dir/cache" -o Acquire::Retries=3
                 -o "APT::Sandbox::User=$(id -un)")
  for release in $(releases); do
    write_source_lists "$dir" "$release"
    quietly apt-get -q "${private[@]}" -o APT::Update::Error-Mode=any update ||
      say "some package lists of $release could not be read, trying with the others"
    versions=$(apt-cache "${private[@]}" showsrc --only-source "$package" 2>/dev/null |
      sed -n 's/^Version: //p' | sort -Vru)
    [ -n "$versions" ] || say "$release: no source package $package is listed"
    for version in $versions; do
      if (cd "$dir" && quietly apt-get -q "${private[@]}" source --download-only --tar-only "$package=$version") &&
        original_archive "$package" "$dir" >/dev/null; then
        say "took $package $version of $release"
        return 0
      fi
      say "$release: $package $version is listed, but its archive could not be downloaded"
    done
  done
  return 1
}
