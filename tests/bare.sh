#!/usr/bin/env bash
# The README's two lines on a bare machine: a fresh clone of what is committed, an empty home, a clean environment, and none of the
# programs and engines that only some machines have.  As root, or where user namespaces are allowed.
set -euo pipefail
hidden="docker dockerd podman bwrap rg tmux node npm npx go cargo rustc uv chromium chromium-browser google-chrome debootstrap"
sockets="/run/docker.sock /run/podman/podman.sock"

if [ "${1:-}" != --inside ]; then
  namespaces=(--mount)
  [ "$(id -u)" = 0 ] || namespaces+=(--map-root-user)
  exec unshare "${namespaces[@]}" "$0" --inside "$(cd "$(dirname "$0")/.." && pwd)"
fi

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
git -c safe.directory="*" clone --quiet "$2" "$folder/lmtui"
IFS=: read -r -a places <<<"$PATH"
for name in $hidden; do
  for place in "${places[@]}"; do
    [ ! -x "$place/$name" ] || mount --bind /dev/null "$(readlink -f "$place/$name")"
  done
done
for socket in $sockets; do [ ! -e "$socket" ] || mount --bind /dev/null "$socket"; done

cd "$folder/lmtui"
mkdir "$folder/home"
# What pip needs to reach its index on this machine is not the user's.
mapfile -t kept < <(env | grep -E '^(PATH|LANG|PIP_[A-Z_]*|[a-zA-Z]*_proxy|[A-Z]*_PROXY|SSL_CERT_FILE)=')
sed -n 's/^\(python3 -m venv .*\)$/\1/p' README.md | while read -r line; do
  echo "== $line"
  begun=$SECONDS
  # A test that fails beside others has one more try alone: what fails twice fails.
  env -i HOME="$folder/home" "${kept[@]}" bash -euc "$line" </dev/null || { [[ $? == 1 && "$line" == *pytest* ]] \
    && env -i HOME="$folder/home" "${kept[@]}" .venv/bin/python -m pytest --last-failed --last-failed-no-failures none </dev/null; }
  echo "== done in $((SECONDS - begun)) s"
done
