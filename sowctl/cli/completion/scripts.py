"""The completion scripts of bash, zsh and fish: they pass the command line to ``sowctl completion`` and use its answer.

The answer consists of lines: the first has the kind of paths to complete (``file``, ``directory``, ``store`` or ``-``),
whether a word is ``unfinished``, and the prefix of a path, separated by tabs; every other line is a word, a tab and its
description. Paths are completed by the shell, since each handles ``~`` and quotation marks in its own way.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sowctl.cli.completion.candidates import Candidates

SHELLS = ("bash", "zsh", "fish")


def build_script(shell: str) -> str:
    """The script for ``bash``, ``zsh`` or ``fish``."""
    return {"bash": _BASH_SCRIPT, "zsh": _ZSH_SCRIPT, "fish": _FISH_SCRIPT}[shell]


def unquote_words(words: Sequence[str], shell: str) -> list[str]:
    """The words of a line without their quotation marks, which bash passes; the last one may be unterminated."""
    return [_unquote_word(word) for word in words] if shell == "bash" else list(words)


def _unquote_word(word: str) -> str:
    # A backslash at the end does not escape anything yet.
    for text in (word, *((word[:-1],) if word.endswith("\\") else ()), word + '"', word + "'"):
        try:
            return "".join(shlex.split(text, posix=True))
        except ValueError:
            continue
    return word


def encode_answer(found: Candidates) -> bytes:
    """The lines of an answer."""
    lines = ["\t".join((found.paths or "-", "unfinished" if found.unfinished else "-", found.front))]
    lines += [f"{one.text}\t{one.help}" for one in found.words if one.text.isprintable()]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


_BASH_SCRIPT = """\
# bash completion for sowctl
_sowctl() {
    local word part="" kind state front line quoted join="" index
    local -a words=() found=()
    COMPREPLY=()
    # Bash takes --config=FILE for three words, and a:b, too.
    for ((index = 1; index <= COMP_CWORD; index++)); do
        word="${COMP_WORDS[index]}"
        if [[ ($word == "=" || $word == ":") && ${#words[@]} -gt 0 ]]; then
            words[${#words[@]}-1]+="$word"; join=1
        elif [[ -n $join ]]; then
            words[${#words[@]}-1]+="$word"; join=""
        else
            words+=("$word")
        fi
    done
    word="${words[${#words[@]}-1]}"
    # What bash has cut off in front of the word that it completes.
    [[ $word == [\\"\\']* || $word != *[=:]* ]] || part="${word%"${word##*[=:]}"}"
    {
        IFS=$'\\t' read -r kind state front
        while IFS= read -r line; do
            line="${line%%$'\\t'*}"
            line="${line#"$part"}"
            # A quotation mark that is open stays in front: without it bash would take it away.
            if [[ $word == [\\"\\']* ]]; then line="${word:0:1}$line"; else printf -v line %q "$line"; fi
            COMPREPLY+=("$line")
        done
    } < <("${COMP_WORDS[0]}" completion bash -- "${words[@]}" 2>/dev/null)
    if [[ $state == unfinished ]]; then compopt -o nospace 2>/dev/null; fi
    if [[ $kind != - ]]; then
        local IFS=$'\\n'
        compopt -o filenames 2>/dev/null
        word="${word#"$part"}"
        case "$kind" in
            file) found=($(compgen -f -- "$word")) ;;
            directory) found=($(compgen -d -- "$word")) ;;
            store) found=($(compgen -d -- "$word") $(compgen -f -X '!*.sow' -- "$word")) ;;
        esac
        COMPREPLY+=("${found[@]}")
    fi
}
complete -F _sowctl sowctl
"""

_ZSH_SCRIPT = """\
#compdef sowctl
# zsh completion for sowctl
_sowctl() {
  local line kind state front
  local -a lines told plain described more
  # Within quotation marks PREFIX is the text itself, elsewhere it may have backslashes.
  local before="$PREFIX"
  [[ -n $QIPREFIX ]] || before="${(Q)PREFIX}"
  lines=("${(@f)$(${words[1]} completion zsh -- "${(@Q)words[2,CURRENT-1]}" "$before" 2>/dev/null)}")
  IFS=$'\\t' read -r kind state front <<< "${lines[1]}"
  for line in "${(@)lines[2,-1]}"; do
    plain+=("${line%%$'\\t'*}")
    described+=("${line%%$'\\t'*}  -- ${line#*$'\\t'}")
    [[ -z ${line#*$'\\t'} ]] || told=1
  done
  [[ $state == unfinished ]] && more=(-S '')
  if (( $#plain )); then
    if [[ -n $told ]]; then
      compadd "${more[@]}" -l -d described -a plain
    else
      compadd "${more[@]}" -a plain
    fi
  fi
  if [[ -n $front ]]; then compset -P "$front"; fi
  case "$kind" in
    file) _files ;;
    directory) _files -/ ;;
    store) _files -g '*.sow(-.)' ;;
  esac
}
if [[ $funcstack[1] == _sowctl ]]; then _sowctl "$@"; else compdef _sowctl sowctl; fi
"""

_FISH_SCRIPT = """\
# fish completion for sowctl
function __sowctl
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    # What is quoted and not ended yet is told without its quotation mark.
    set -l plain (string replace -r '^["\\']' '' -- $current)
    set -l lines ($words[1] completion fish -- $words[2..-1] "$plain" 2>/dev/null)
    set -l head (string split \\t -- $lines[1])
    for line in $lines[2..-1]
        echo $line
    end
    set -l front $head[3]
    set -l path (string replace -- "$front" '' "$plain")
    switch $head[1]
        case file
            for one in (__fish_complete_path $path)
                echo $front$one
            end
        case directory
            for one in (__fish_complete_directories $path)
                echo $front$one
            end
        case store
            for one in (__fish_complete_path $path | string match -r '.*(?:\\.sow|/)(?:\\t.*)?$')
                echo $front$one
            end
    end
end
complete -c sowctl -f -a '(__sowctl)'
"""
