# Prints `name=value` lines.  A check that cannot be made prints nothing and fails.  MARKER is a file outside; where IS_SHARED is
# true, there is no network namespace, and the supervisor's processes are visible by their number.
python3 -S -c 'print(f"python={6 * 7}")' &
while read -r name value; do case $name in Cap*|NoNewPrivs:|Seccomp:) echo "$name=$value";; esac; done < /proc/self/status
interfaces=
while read -r name value; do case $name in *:*) interfaces=$interfaces${name%%:*};; esac; done < /proc/net/dev
echo "interfaces=$interfaces"
if (: > /lmtui-probe) 2>/dev/null; then echo root=writable; else echo root=read-only; fi
for name in .git .lmagent; do
  if [ -d $name ]; then
    if (: > $name/lmtui-probe) 2>/dev/null; then echo $name=writable; rm -f $name/lmtui-probe; else echo $name=read-only; fi
  elif [ -e $name ]; then if (: >> $name) 2>/dev/null; then echo $name=writable; else echo $name=read-only; fi
  else echo $name=missing; fi
done
if (: < MARKER) 2>/dev/null; then echo marker=visible; else echo marker=hidden; fi
echo content > probe && echo workspace=writable
echo "shell=$BASH_VERSION"
if IS_SHARED; then
  echo "socket=$(python3 -c 'import socket; socket.socket(); print("open")' 2>&1 | tail -n 1)"
  if (: < /proc/$PPID/environ) 2>/dev/null; then echo supervisor=visible; else echo supervisor=hidden; fi
fi
wait
