# ===- completion.py - Completion in shells -----------------------------------===#
#
# Part of the Optimus project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for licence information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes the scripts by which bash, zsh and fish complete a tool's command line."""

import re
from typing import Iterator, List

from commands import Command, takes_file
from optimus.help_page import Option


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _function(command: Command) -> str:
    return "_" + re.sub(r"\W", "_", "_".join(command.words))


# ------------------------------------------------------------------------ bash

BASH = """# Completion of {tool} in bash.
{function}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} command= word
  # Of --flag=value the three parts are words.
  [[ $current != = ]] || current=
  [[ $previous != = ]] || previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
    case $word in
      {commands}) command=$word; break ;;
    esac
  done
  COMPREPLY=()
  case $command:$previous in
{values}
  esac
  case $command in
{words}
  esac
}}
complete -o default -F {function} {tool}
"""


def bash(tool: Command) -> str:
    values: List[str] = []
    words: List[str] = []
    for command in tool.walk():
        flags = command.page.flags
        for option in flags:
            if option.value:
                where = "|".join("%s:%s" % (command.subcommand, n) for n in option.names)
                values.append("    %s) %s return ;;" % (where, _bash_value(option)))
        names = [name for option in flags for name in option.names]
        # Files are left to bash, but for the first word of a tool with subcommands.
        begin = _bash_words(names, "[[ $current != -* ]] ||")
        if command.commands:
            begin = _bash_words([each.words[-1] for each in command.commands] + names, "")
        words.append("    %s) %s ;;" % (_quote(command.subcommand), begin))
    return BASH.format(
        tool=tool.name,
        function=_function(tool),
        commands="|".join(each.subcommand for each in tool.commands) or "''",
        values="\n".join(values),
        words="\n".join(words),
    )


def _bash_words(words: List[str], when: str) -> str:
    given = _quote(" ".join(words))
    return (when + " mapfile -t COMPREPLY < <(compgen -W %s -- \"$current\")" % given).strip()


def _bash_value(option: Option) -> str:
    if option.choices:
        return _bash_words(list(option.choices), "") + ";"
    return "" if takes_file(option) else "compopt +o default;"


# ------------------------------------------------------------------------- zsh


def zsh(tool: Command) -> str:
    lines = ["#compdef %s" % tool.name, "# Completion of %s in zsh." % tool.name]
    for command in reversed(list(tool.walk())):
        lines.append("%s() {" % _function(command))
        lines += _zsh_body(command)
        lines.append("}")
    return "\n".join([*lines, '%s "$@"' % _function(tool), ""])


def _zsh_body(command: Command) -> Iterator[str]:
    specs = [_quote(spec) for option in command.page.flags for spec in _zsh_specs(option)]
    if command.page.flags != command.page.options:
        specs.append("'*:file:_files'")
    if command.commands:
        yield "  local state"
        specs += ["'1: :->command'", "'*:: :->arguments'"]
    yield "  _arguments %s%s" % ("-C " if command.commands else "", " \\\n    ".join(specs))
    if not command.commands:
        return
    named = [
        _quote("%s:%s" % (each.words[-1], each.summary.replace(":", r"\:")))
        for each in command.commands
    ]
    yield "  local -a commands=(%s)" % "\n    ".join(named)
    yield "  case $state in"
    yield "    command) _describe command commands ;;"
    yield "    arguments)"
    yield "      case $words[1] in"
    for each in command.commands:
        yield "        %s) %s ;;" % (each.words[-1], _function(each))
    yield "      esac ;;"
    yield "  esac"


def _zsh_specs(option: Option) -> Iterator[str]:
    value = ""
    if option.value:
        action = "(%s)" % " ".join(option.choices) if option.choices else " "
        action = "_files" if takes_file(option) else action
        value = ":%s:%s" % (_zsh_text(option.value), action)
    again = "*" if "again" in option.note + option.text else ""
    for name in option.names:
        others = "" if again else "(%s)" % " ".join(option.names)
        joined = "=" if option.value and name.startswith("--") else ""
        yield "%s%s%s%s[%s]%s" % (others, again, name, joined, _zsh_text(option.text), value)


def _zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


# ------------------------------------------------------------------------ fish


def fish(tool: Command) -> str:
    lines = ["# Completion of %s in fish." % tool.name]
    for command in tool.walk():
        where = ""
        if command.subcommand:
            where = "__fish_seen_subcommand_from %s" % command.subcommand
        elif command.commands:
            where = "__fish_use_subcommand"
        begin = "complete -c %s" % tool.name + (" -n %s" % _fish(where) if where else "")
        for each in command.commands:
            lines.append("%s -f -a %s -d %s" % (begin, each.words[-1], _fish(each.summary)))
        lines += ["%s %s" % (begin, _fish_option(option)) for option in command.page.flags]
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    parts = []
    for name in option.names:
        bare = name.lstrip("-")
        parts.append(("-l " if name.startswith("--") else "-s ") + bare)
    if option.choices:
        parts.append("-x -a %s" % _fish(" ".join(option.choices)))
    elif option.value:
        parts.append("-r" if takes_file(option) else "-x")
    return " ".join([*parts, "-d", _fish(option.text or option.names[-1])])


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
