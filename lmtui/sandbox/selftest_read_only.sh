# Prints what could be changed; one word a try: a new file, a new folder, and a change of a file.
if (: > PROBE) 2>/dev/null; then echo file; fi
if mkdir PROBE-folder 2>/dev/null; then echo folder; rmdir PROBE-folder; fi
for name in *; do if [ -f "$name" ]; then if (: >> "$name") 2>/dev/null; then echo "old file"; fi; break; fi; done
if (: > "${TMPDIR:-/tmp}/PROBE") 2>/dev/null; then echo scratch; fi
