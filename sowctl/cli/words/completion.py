"""Completion scripts for bash, zsh and fish, static texts made from the table and the declarations.

A script knows commands, options, the choices of options and operands, and where files, directories, stores or words of
a table belong. It starts a program only where the name of an entry of the configuration belongs: ``sowctl completion
--names``, with the configuration that the line names.
"""

from __future__ import annotations

from msgspec import Struct

from sowctl.cli.words.declare import NAMED, WITH_STORES, Argument, Completion, Option, Parameter
from sowctl.cli.words.loaded import load
from sowctl.cli.words.options import GLOBALS
from sowctl.cli.words.table import COMMANDS, PAGES, PREFIXES, members

_PATHS = frozenset({"file", "directory", "store"})
_ZSH_PATHS = {"file": "_files", "directory": "_files -/", "store": '_files -g "*.sow"'}
_FISH_PATHS = {
    "file": "-F",
    "directory": "-f -a '(__fish_complete_directories)'",
    # __fish_complete_suffix would offer every file, those with the suffix only first
    "store": "-f -a '(for file in (commandline -ct)*.sow; echo $file; end; __fish_complete_directories)'",
}
"""What completes a path, in the words of each shell; bash has a function for each, in the script itself."""


class Word(Struct, frozen=True):
    """One option: spellings, help, whether a value follows, and what completes it: words, or ``file``, ``directory``,
    ``store``."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]
    complete: str


class Spec(Struct, frozen=True):
    """What completes behind one command: its options, and its operands' words, ``names`` of the configuration (a key of
    ``NAMED``) or ``files`` (as ``Word.complete``)."""

    name: str
    summary: str
    options: tuple[Word, ...]
    choices: tuple[str, ...]
    files: str
    names: str


def script(shell: str) -> str:
    """The script for ``bash``, ``zsh`` or ``fish``."""
    specs = [_spec(command.name, command.summary, load(command).parameters) for command in COMMANDS]
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](specs)


def _spec(name: str, summary: str, parameters: tuple[Parameter, ...]) -> Spec:
    options = tuple(_word(parameter) for parameter in parameters if isinstance(parameter.declared, Option))
    operands = [parameter.declared for parameter in parameters if isinstance(parameter.declared, Argument)]
    choices = tuple(choice for operand in operands for choice in operand.choices or _words_of(operand.complete))
    names = next((operand.complete for operand in operands if operand.complete in NAMED), "")
    files = next((operand.complete for operand in operands if operand.complete in _PATHS), "")
    return Spec(name, summary, (*options, _HELP), choices, "store" if names in WITH_STORES else files, names)


def _word(parameter: Parameter) -> Word:
    declared = parameter.declared
    assert isinstance(declared, Option)
    words = declared.choices or _words_of(declared.complete)
    return Word(declared.names, declared.help, parameter.takes_value, words, declared.complete)


def _words_of(complete: Completion) -> tuple[str, ...]:
    """The words of a table that complete a value; none for values that are paths or of any kind."""
    if complete == "page":
        return (*(command.page for command in COMMANDS), *PAGES)
    if complete == "function":
        from sowctl.expressions.functions.table import TABLE

        return tuple(entry.name for entry in TABLE)
    if complete == "code":
        from sowctl.cli.words.codes import known

        return tuple(known())
    if complete == "message type":
        from sowctl.messages.types import type_names

        return tuple(type_names())
    return ()


_HELP = Word(("--help", "-h"), "show help", False, (), "")
_GLOBAL = tuple(_word(parameter) for parameter in GLOBALS)


def _first_words() -> list[tuple[str, str]]:
    """What may stand first: one-word commands and the first words of the others."""
    single = [(command.name, command.summary) for command in COMMANDS if len(command.words) == 1]
    return single + [(prefix, PREFIXES[prefix]) for prefix in sorted(PREFIXES)]


def _bash(specs: list[Spec]) -> str:
    values, words = [], []
    for spec in specs:
        names = " ".join(name for option in spec.options for name in option.names)
        operands = " ".join(spec.choices)
        places = f'files="{spec.files}" entries="{spec.names}"'
        words.append(f'        "{spec.name}") options="{names}" operands="{operands}" {places} ;;')
        for option in spec.options:
            if option.takes_value and option not in _GLOBAL:
                values.append(f"        {_patterns(spec.name, option)}) {_bash_value(option)} ;;")
    for option in _GLOBAL:
        if option.takes_value:
            values.append(f"        {_patterns('*', option)}) {_bash_value(option)} ;;")
    prefixes = "\n".join(
        f'        "{prefix}") options="" operands="{" ".join(c.words[1] for c in members(prefix))}" files="" ;;'
        for prefix in sorted(PREFIXES)
    )
    # What follows such an option in front of the command is its value and no command.
    takes = "|".join(name for option in _GLOBAL if option.takes_value for name in option.names) + "|--format|-F"
    first = " ".join(word for word, _ in _first_words())
    globals_ = " ".join([*(name for option in _GLOBAL for name in option.names), "--help", "--version"])
    filled = _BASH.replace("@VALUES@", "\n".join(values)).replace("@WORDS@", "\n".join(words))
    filled = filled.replace("@PREFIXES@", prefixes).replace("@TAKES@", takes).replace("@FIRST@", first)
    return filled.replace("@GLOBALS@", globals_).replace("@TWO@", "|".join(sorted(PREFIXES)))


def _patterns(command: str, option: Word) -> str:
    front = "*" if command == "*" else f'"{command}"'
    return "|".join(f"{front}' {name}'" for name in option.names)


def _bash_value(option: Word) -> str:
    if option.choices:
        return f'_sowctl_words "{" ".join(option.choices)}"; return'
    return f"_sowctl_{option.complete}; return" if option.complete in _PATHS else "return"


_BASH = """\
# bash completion for sowctl
_sowctl_words() {
    COMPREPLY=($(compgen -W "$1" -- "$current"))
}
_sowctl_paths() {
    local IFS=$'\\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen "$@" -- "$current"))
}
_sowctl_names() {
    local name quoted
    while IFS= read -r name; do
        printf -v quoted %q "$name"
        [[ $quoted == "$current"* || $name == "$current"* ]] && COMPREPLY+=("$quoted")
    done < <("${COMP_WORDS[0]}" "${config[@]}" completion --names "$1" 2>/dev/null)
}
_sowctl_file() { _sowctl_paths -f; }
_sowctl_directory() { _sowctl_paths -d; }
_sowctl_store() {
    local found
    _sowctl_paths -d
    found=("${COMPREPLY[@]}")
    _sowctl_paths -f -X '!*.sow'
    COMPREPLY+=("${found[@]}")
}
_sowctl() {
    local current="${COMP_WORDS[COMP_CWORD]}" previous="" command="" skip=0 index word options operands files entries
    local -a config=()
    COMPREPLY=()
    for ((index = 1; index < COMP_CWORD; index++)); do
        word="${COMP_WORDS[index]}"
        if [[ $word == -c || $word == --config ]]; then
            config=(-c "${COMP_WORDS[index+1]}")
            if [[ ${config[1]} == "=" ]]; then config=(-c "${COMP_WORDS[index+2]}"); fi
        fi
        # Bash takes --config=FILE for three words.
        if [[ $word == "=" ]]; then skip=1; continue; fi
        if ((skip)); then skip=0; continue; fi
        if [[ -z $command ]]; then
            case "$word" in
                @TAKES@) skip=1 ;;
                -*) ;;
                *) command="$word" ;;
            esac
        else
            case "$command" in
                @TWO@) [[ $word == -* ]] || command="$command $word" ;;
            esac
        fi
    done
    previous="${COMP_WORDS[COMP_CWORD-1]}"
    if [[ $current == "=" ]]; then
        current=""
    elif [[ $previous == "=" && COMP_CWORD -gt 1 ]]; then
        previous="${COMP_WORDS[COMP_CWORD-2]}"
    fi
    case "$command $previous" in
@VALUES@
    esac
    if [[ -z $command ]]; then
        if [[ $current == -* ]]; then _sowctl_words "@GLOBALS@"; else _sowctl_words "@FIRST@"; fi
        return
    fi
    options="" operands="" files="file" entries=""
    case "$command" in
@PREFIXES@
@WORDS@
    esac
    if [[ $current == -* ]]; then
        _sowctl_words "$options"
    elif [[ -n $operands ]]; then
        _sowctl_words "$operands"
    else
        [[ -z $files ]] || "_sowctl_$files"
        [[ -z $entries ]] || _sowctl_names "$entries"
    fi
}
complete -F _sowctl sowctl
"""


def _zsh(specs: list[Spec]) -> str:
    first = "\n".join(f"    {_quoted(f'{word}:{summary}')}" for word, summary in _first_words())
    cases = []
    for spec in specs:
        lines = [f"      {_quoted(_zsh_option(option, name))} \\" for option in spec.options for name in option.names]
        rest = f"({' '.join(spec.choices)})" if spec.choices else _ZSH_PATHS.get(spec.files, " ")
        if spec.names:
            rest = f"{{_sowctl_names {spec.names}; {_ZSH_PATHS.get(spec.files, '')}}}"
        cases.append(f'    "{spec.name}")\n      _arguments -s \\\n' + "\n".join(lines) + f"\n      '*: :{rest}' ;;")
    seconds = "\n".join(f"    {prefix}) {_zsh_seconds(prefix)} ;;" for prefix in sorted(PREFIXES))
    filled = _ZSH.replace("@FIRST@", first).replace("@CASES@", "\n".join(cases)).replace("@SECONDS@", seconds)
    return filled.replace("@TWO@", "|".join(sorted(PREFIXES)))


def _zsh_seconds(prefix: str) -> str:
    words = " ".join(_quoted(f"{command.words[1]}:{command.summary}") for command in members(prefix))
    return f"commands=({words}); _describe command commands"


def _zsh_option(option: Word, name: str) -> str:
    # Brackets and colons separate the parts of a specification of zsh's.
    words = option.help.replace("[", "(").replace("]", ")").replace(":", ";")
    text = f"*{name}[{words}]"
    if not option.takes_value:
        return text
    action = f"({' '.join(option.choices)})" if option.choices else _ZSH_PATHS.get(option.complete, " ")
    return f"{text}:value:{action}"


def _quoted(text: str) -> str:
    # A quotation mark ends the text, stands outside of it behind a backslash, and begins it again.
    return "'" + text.replace("'", "'\\''") + "'"


_ZSH = """\
#compdef sowctl
# zsh completion for sowctl
_sowctl_names() {
  local -a found config
  local at=${words[(I)(-c|--config)]}
  (( at )) && config=(-c ${words[at+1]})
  found=(${(f)"$(${words[1]} $config completion --names $1 2>/dev/null)"})
  compadd -a found
}
_sowctl() {
  local command="" index
  local -a commands
  commands=(
@FIRST@
  )
  for ((index = 2; index < CURRENT; index++)); do
    if [[ -z $command && ${words[index]} != -* ]]; then
      command=${words[index]}
    elif [[ $command == (@TWO@) && ${words[index]} != -* ]]; then
      command="$command ${words[index]}"
    fi
  done
  case "$command" in
    "") _describe command commands ;;
@SECONDS@
@CASES@
  esac
}
_sowctl "$@"
"""


def _fish(specs: list[Spec]) -> str:
    lines = ["# fish completion for sowctl", _FISH_NAMES, "complete -c sowctl -f"]
    for word, summary in _first_words():
        lines.append(f"complete -c sowctl -n __fish_use_subcommand -a {word} -d {_quoted_fish(summary)}")
    for prefix in sorted(PREFIXES):
        seconds = " ".join(command.words[1] for command in members(prefix))
        test = f"__fish_seen_subcommand_from {prefix}; and not __fish_seen_subcommand_from {seconds}"
        lines += [
            f"complete -c sowctl -n '{test}' -a {command.words[1]} -d {_quoted_fish(command.summary)}"
            for command in members(prefix)
        ]
    for spec in specs:
        test = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in spec.name.split())
        front = f"complete -c sowctl -n '{test}'"
        if spec.choices:
            lines.append(f"{front} -a '{' '.join(spec.choices)}'")
        elif spec.files:
            lines.append(f"{front} {_FISH_PATHS[spec.files]}")
        if spec.names:
            lines.append(f"{front} -a '(__sowctl_names {spec.names})'")
        lines += [f"{front} {_fish_option(option)}" for option in spec.options]
    return "\n".join(lines) + "\n"


_FISH_NAMES = """\
function __sowctl_names
    set -l words (commandline -opc)
    set -l config
    for index in (seq (count $words))
        if contains -- $words[$index] -c --config
            set config -c $words[(math $index + 1)]
        end
    end
    sowctl $config completion --names $argv[1] 2>/dev/null
end"""


def _fish_option(option: Word) -> str:
    parts = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.takes_value:
        parts.append("-r" + (f" -f -a '{' '.join(option.choices)}'" if option.choices else ""))
        parts += [_FISH_PATHS[option.complete]] if option.complete in _PATHS else []
    return " ".join([*parts, f"-d {_quoted_fish(option.help)}"])


def _quoted_fish(text: str) -> str:
    # Within quotation marks, too, fish takes a backslash for an escape, so it is doubled first.
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
