# completion of lmtui: put `eval "$(lmtui completion %(shell)s)"` into ~/.%(shell)src
%(setup)s_lmtui() {
  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="" words="" word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in %(commands)s) command="$word"; break ;; esac
  done
  case "$command:$before" in
%(values)s
  esac
  case "$command" in
%(options)s
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _lmtui lmtui
