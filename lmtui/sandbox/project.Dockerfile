# Behind the project's own image: what the supervisor and the tools need, where it lacks that.
USER root
RUN command -v python3 >/dev/null && command -v bash >/dev/null && command -v git >/dev/null || \
    { command -v apt-get >/dev/null && apt-get update && apt-get install -y --no-install-recommends python3 bash git \
       && rm -rf /var/lib/apt/lists/*; } || apk add --no-cache python3 bash git || dnf install -y python3 bash git
RUN [ -e /workspace ] || [ -L /workspace ] || ln -s LINK_INSIDE/workspace /workspace
