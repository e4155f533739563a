"""Programs that read and tell, with the options under which they do nothing else.  What is not here is asked about."""

from __future__ import annotations

from lmtui.core.shell.options import OptionGrammar

_NAMES_ONLY = OptionGrammar(is_free=True, hides=True)
_CONTENTS = OptionGrammar(is_free=True)
_PATTERN = OptionGrammar(
    is_free=True,
    has_numbers=True,
    valued="efmABCdD",
    long_valued="regexp file max-count after-context before-context context directories devices include exclude",
    skipped=1,
    replaces_skipped="e f regexp file",
)

# No option of these runs or writes anything (GNU coreutils, grep and procps).
_FREE = {
    "ls": _NAMES_ONLY, "dir": _NAMES_ONLY, "stat": _NAMES_ONLY, "du": _NAMES_ONLY, "df": _NAMES_ONLY, "wc": _NAMES_ONLY,
    "pwd": _NAMES_ONLY, "echo": _NAMES_ONLY, "true": _NAMES_ONLY, "false": _NAMES_ONLY, ":": _NAMES_ONLY,
    "basename": _NAMES_ONLY, "dirname": _NAMES_ONLY, "realpath": _NAMES_ONLY, "readlink": _NAMES_ONLY, "which": _NAMES_ONLY,
    "seq": _NAMES_ONLY, "whoami": _NAMES_ONLY, "id": _NAMES_ONLY, "groups": _NAMES_ONLY, "uname": _NAMES_ONLY,
    "nproc": _NAMES_ONLY, "arch": _NAMES_ONLY, "tty": _NAMES_ONLY, "uptime": _NAMES_ONLY, "free": _NAMES_ONLY,
    "ps": _NAMES_ONLY, "pgrep": _NAMES_ONLY, "type": _NAMES_ONLY, "md5sum": _NAMES_ONLY, "sha1sum": _NAMES_ONLY,
    "sha256sum": _NAMES_ONLY, "sha512sum": _NAMES_ONLY, "b2sum": _NAMES_ONLY, "cksum": _NAMES_ONLY, "sum": _NAMES_ONLY,
    "getconf": _NAMES_ONLY, "locale": _NAMES_ONLY, "printenv": _NAMES_ONLY, "lscpu": _NAMES_ONLY, "lsblk": _NAMES_ONLY,
    "lsof": _NAMES_ONLY,
    "netstat": _NAMES_ONLY,
    "cat": _CONTENTS, "nl": _CONTENTS, "tac": _CONTENTS, "rev": _CONTENTS, "paste": _CONTENTS, "fold": _CONTENTS,
    "expand": _CONTENTS, "unexpand": _CONTENTS, "comm": _CONTENTS, "cmp": _CONTENTS, "od": _CONTENTS, "hexdump": _CONTENTS,
    "strings": _CONTENTS, "zcat": _CONTENTS, "fmt": _CONTENTS, "tr": _CONTENTS,
    "head": OptionGrammar(is_free=True, has_numbers=True, valued="nc"), "column": OptionGrammar(is_free=True, valued="csoNT"),
    "tail": OptionGrammar(is_free=True, has_numbers=True, valued="ncs"), "cut": OptionGrammar(is_free=True, valued="bcdf"),
    "join": OptionGrammar(is_free=True, valued="12tjaeov"), "base64": OptionGrammar(is_free=True, valued="w"),
    "grep": _PATTERN, "egrep": _PATTERN, "fgrep": _PATTERN,
    "jq": OptionGrammar(
        is_free=True, valued="fL", long_valued="arg argjson slurpfile rawfile indent from-file", skipped=1,
        replaces_skipped="f from-file",
    ),
}  # fmt: skip

_SOME_OPTIONS = {
    "cd": OptionGrammar(flags="LP", most=1),
    "exit": OptionGrammar(most=1, hides=True),
    "sleep": OptionGrammar(hides=True),
    "set": OptionGrammar(flags="eux", valued="o", hides=True, most=0),
    "printf": OptionGrammar(hides=True),
    "hostname": OptionGrammar(flags="fsiI", most=0, hides=True),
    "date": OptionGrammar(flags="uIR", valued="dr", long="utc iso-8601 rfc-3339 rfc-email", long_valued="date", hides=True),
    "[": OptionGrammar(flags="efdrwxsLhnz", hides=True),
    "test": OptionGrammar(flags="efdrwxsLhnzSpbcugkGON", hides=True),
    "uniq": OptionGrammar(flags="cdDiuz", valued="fsw", long="count repeated unique ignore-case all-repeated", most=1),
    "xxd": OptionGrammar(flags="abeEipru", valued="closgRn", most=1),
    "file": OptionGrammar(flags="biLhkNnprsz0", long="brief mime mime-type mime-encoding dereference", hides=True),
    "tree": OptionGrammar(
        flags="adfilpsughDFqNQrtUvCnJX", valued="LIP", hides=True,
        long="noreport dirsfirst du gitignore prune filesfirst ignore-case matchdirs inodes device si sort charset filelimit",
    ),
    "diff": OptionGrammar(
        flags="uqrsNwbBiytaEZcdpTe", valued="UCIxXWL", has_numbers=True,
        long="brief unified context side-by-side recursive ignore-all-space ignore-space-change ignore-blank-lines color "
        "ignore-case minimal report-identical-files new-file text suppress-common-lines strip-trailing-cr label width "
        "show-c-function no-dereference ignore-trailing-space exclude exclude-from ignore-matching-lines normal",
    ),
    "sort": OptionGrammar(
        flags="nrfudbghiMVzcCms", valued="kt",
        long="numeric-sort reverse unique ignore-case human-numeric-sort version-sort general-numeric-sort check stable "
        "zero-terminated month-sort random-sort ignore-leading-blanks dictionary-order merge",
        long_valued="key field-separator",
    ),
    "rg": OptionGrammar(
        flags="cilnswvFUoqHINSuLPx0habp.", valued="ABCEefgjmMtTrd", skipped=1,
        replaces_skipped="e f regexp file files type-list",
        long="ignore-case smart-case case-sensitive line-number no-line-number count count-matches files-with-matches "
        "files-without-match fixed-strings word-regexp line-regexp invert-match hidden no-ignore no-ignore-vcs multiline "
        "multiline-dotall only-matching no-heading heading with-filename no-filename files type-list stats json vimgrep "
        "column trim text follow pcre2 null quiet no-messages passthru pretty no-config sort sortr color colors unrestricted "
        "one-file-system crlf byte-offset max-columns-preview context-separator version no-follow glob-case-insensitive",
        long_valued="glob iglob type type-not max-count after-context before-context context max-depth max-columns regexp "
        "file replace max-filesize encoding threads type-add",
    ),
    "fd": OptionGrammar(
        flags="HIuLsiagFp01qV", valued="dteEScj", hides=True, skipped=1,
        long="hidden no-ignore follow absolute-path glob full-path fixed-strings case-sensitive ignore-case print0 "
        "unrestricted",
        long_valued="max-depth min-depth type extension exclude size changed-within changed-before max-results",
    ),
    "unzip": OptionGrammar(flags="lvtqZ", needs="l v t Z", hides=True),
    "zipinfo": OptionGrammar(flags="12smlvhtTz", hides=True),
    "gzip": OptionGrammar(flags="lvt", long="list test", needs="l t list test", hides=True),
    "nm": OptionGrammar(flags="aCDgnoprSu", hides=True),
}  # fmt: skip

READERS: dict[str, OptionGrammar] = {**_FREE, **_SOME_OPTIONS}

# Of these, `--version` and `--help` alone print something and end; below are whole commands that do.
VERSION_PROGRAMS = frozenset(
    {"python", "python3", "python3.11", "python3.12", "python3.13", "node", "npm", "npx", "yarn", "pnpm", "pip", "pip3", "uv",
     "poetry", "go", "cargo", "rustc", "rustup", "gcc", "g++", "cc", "clang", "make", "cmake", "docker", "java", "javac",
     "ruby",
     "php", "perl", "tsc", "pytest", "ruff", "mypy", "black", "tox", "nox", "bash", "jq", "rg", "gh", "kubectl", "curl",
     "git",
     "wget", "tar", "eslint", "prettier", "deno", "bun", "gradle", "mvn", "ninja", "sed", "awk", "gawk", "find", "grep"}
)  # fmt: skip
FIXED_COMMANDS = frozenset(
    {("env",), ("python", "-V"), ("python3", "-V"), ("node", "-v"), ("npm", "-v"), ("go", "version"), ("docker", "version"),
     ("java", "-version"), ("pip", "-V"), ("ruby", "-v"), ("php", "-v"), ("git", "version")}
)  # fmt: skip
