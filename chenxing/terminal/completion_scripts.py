"""Scripts for four shells that complete the same words.

Source  bash(1) "Programmable Completion"; zshcompsys(1); fish complete(1); PowerShell Register-ArgumentCompleter
"""

import shlex

from chenxing.terminal.completion_words import Command, Flag


def bash(commands: list[Command]) -> str:
    cases = []
    for command in commands:
        names = " ".join(name for flag in command.flags for name in flag.names)
        files = "yes" if command.takes_files else ""
        words = shlex.quote(" ".join(command.words))
        cases.append(f"    {command.name}) flags={shlex.quote(names)} words={words} files={files} ;;")
    values = []
    for command, flag in _chosen(commands):
        words = f"compgen -W {shlex.quote(' '.join(flag.values))}"
        values.append(f'    {_patterns(command, flag)}) COMPREPLY=($({words} -- "$cur")); return ;;')
    taking = [
        f"    {_patterns(c, f)}) IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$cur\")); return ;;"
        for c, f in _free(commands)
    ]
    return f"""\
_chenxing() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} flags= words= files= IFS=$' \\n'
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W {shlex.quote(" ".join(c.name for c in commands))} -- "$cur"))
    return
  fi
  case "${{COMP_WORDS[1]}} $prev" in
{_lines(values + taking)}
  esac
  case "${{COMP_WORDS[1]}}" in
{_lines(cases)}
  esac
  if [ "${{cur:0:1}}" = - ]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    IFS=$'\\n'
    if [ -n "$files" ]; then COMPREPLY+=($(compgen -f -- "$cur")); fi
  fi
}}
complete -o filenames -F _chenxing chenxing"""


def zsh(commands: list[Command]) -> str:
    cases, values = [], []
    for command in commands:
        flags = " ".join(_described(name, flag.help) for flag in command.flags for name in flag.names)
        files = "yes" if command.takes_files else ""
        cases.append(f"    {command.name}) flags=({flags}) names=({_quoted(command.words)}) files={files} ;;")
    for command, flag in _chosen(commands):
        values.append(f"    {_patterns(command, flag)}) compadd -- {_quoted(flag.values)}; return ;;")
    taking = [f"    {_patterns(c, f)}) _files; return ;;" for c, f in _free(commands)]
    return f"""\
#compdef chenxing
_chenxing() {{
  local -a flags names
  local files
  if (( CURRENT == 2 )); then
    names=({" ".join(_described(c.name, c.help) for c in commands)})
    _describe command names
    return
  fi
  case "$words[2] $words[CURRENT-1]" in
{_lines(values + taking)}
  esac
  case "$words[2]" in
{_lines(cases)}
  esac
  if [[ $PREFIX == -* ]]; then
    _describe -o flag flags
  else
    compadd -a names
    [[ -n $files ]] && _files
  fi
}}
if [ "$funcstack[1]" = _chenxing ]; then _chenxing "$@"; else compdef _chenxing chenxing; fi"""


def fish(commands: list[Command]) -> str:
    lines = ["complete -c chenxing -f"]
    for command in commands:
        lines.append(f"complete -c chenxing -n __fish_use_subcommand -a {command.name} -d {_fish(command.help)}")
    for command in commands:
        here = f"complete -c chenxing -n '__fish_seen_subcommand_from {command.name}'"
        if command.takes_files:
            lines.append(f"{here} -F")
        if command.words:
            lines.append(f"{here} -a {_fish(' '.join(command.words))}")
        for flag in command.flags:
            names = " ".join(_fish_name(name) for name in flag.names)
            value = f" -x -a {_fish(' '.join(flag.values))}" if flag.values else " -r -F" if flag.takes_value else ""
            lines.append(f"{here} {names}{value} -d {_fish(flag.help)}")
    return "\n".join(lines)


def powershell(commands: list[Command]) -> str:
    rows = []
    for command in commands:
        flags = [name for flag in command.flags for name in flag.names]
        words = _array([*command.words, *flags])
        values = "; ".join(f"{_ps(name)} = {_array(f.values)}" for f in command.flags if f.values for name in f.names)
        rows.append(f"    {_ps(command.name)} = @{{ words = {words}; values = @{{ {values} }} }}")
    return f"""\
Register-ArgumentCompleter -Native -CommandName chenxing -ScriptBlock {{
  param($wordToComplete, $commandAst, $cursorPosition)
  $commands = [ordered]@{{
{_lines(rows)}
  }}
  $before = $commandAst.CommandElements | Where-Object {{ $_.Extent.EndOffset -lt $cursorPosition }}
  $typed = @($before | ForEach-Object {{ "$_" }})
  $words = @($commands.Keys)
  if ($typed.Count -gt 1) {{
    $command = $commands[$typed[1]]
    $words = @()
    if ($command) {{
      $words = $command.words
      if ($command.values.Contains($typed[-1])) {{ $words = $command.values[$typed[-1]] }}
    }}
  }}
  $words | Where-Object {{ $_.StartsWith($wordToComplete) }} | ForEach-Object {{
    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
  }}
}}"""


def _free(commands: list[Command]) -> list[tuple[Command, Flag]]:
    """Flags with a value that can be anything: perhaps a file."""
    return [(c, flag) for c in commands for flag in c.flags if flag.takes_value and not flag.values]


def _chosen(commands: list[Command]) -> list[tuple[Command, Flag]]:
    """Flags whose value is one of some words."""
    return [(c, flag) for c in commands for flag in c.flags if flag.values]


def _patterns(command: Command, flag: Flag) -> str:
    return "|".join(shlex.quote(f"{command.name} {name}") for name in flag.names)


def _lines(lines: list[str]) -> str:
    return "\n".join(lines)


def _quoted(words: tuple[str, ...]) -> str:
    return " ".join(map(shlex.quote, words))


def _described(name: str, text: str) -> str:
    """zsh's notation: a colon stands between a word and its description."""
    return shlex.quote(name.replace(":", r"\:") + ":" + text)


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_name(name: str) -> str:
    if name.startswith("--"):
        return f"-l {name[2:]}"
    return f"-s {name[1:]}" if len(name) == 2 else f"-o {name[1:]}"


def _ps(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _array(words: list[str] | tuple[str, ...]) -> str:
    return f"@({', '.join(map(_ps, words))})"
