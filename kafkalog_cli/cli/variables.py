"""Options from variables of the environment, KAFKALOG_COMMAND_OPTION and KAFKALOG_OPTION, and the check of their names.

An option that may be set so declares its common variable as `envvar`. The command line alone has the paths of commands
that change logs, and the options that decide which data are changed: a forgotten variable must not remove data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from kafkalog_cli.errors import UsageError, did_you_mean

PREFIX = "KAFKALOG_"
_OWN = frozenset({"KAFKALOG_CACHE_DIR", "KAFKALOG_DEBUG", "KAFKALOG_JAVA_HOME"})
_OF_OTHERS = re.compile(
    r"KAFKALOG_(TEST_.*|(.+_)?SERVICE_(HOST|PORT(_.+)?)|(.+_)?PORT(_\d+_[A-Z]+(_(PROTO|PORT|ADDR))?)?)"
)
"""Variables of the tests, and of Kubernetes, which sets them in each pod for a service named kafkalog or kafkalog-X."""


def add_own_variables(command: Any) -> None:
    """Give the options with a common variable the stronger variable of this command too."""
    for param in command.params:
        if param.envvar:
            own = PREFIX + command.name.upper().replace("-", "_") + param.envvar.removeprefix(PREFIX[:-1])
            param.envvar, param.show_envvar = [own, param.envvar], False  # kafkalog(1) has them


def variables_of(command: Any) -> list[str]:
    """Return the variables of a command's options."""
    return [name for param in command.params for name in param.envvar or ()]


def check_variables(called: Any, commands: Mapping[str, Any]) -> None:
    """Raise UsageError for a variable of an unknown name. Other commands than `called` are imported only for them."""
    own = variables_of(called)
    for name in os.environ:
        if name.startswith(PREFIX) and name not in own and name not in _OWN and not _OF_OTHERS.fullmatch(name):
            known = [variable for command in commands.values() for variable in variables_of(command)]
            if name not in known:
                bare = dict.fromkeys(variable.removeprefix(PREFIX) for variable in known)
                question = did_you_mean(name.removeprefix(PREFIX), bare, PREFIX) or "kafkalog(1) lists the names"
                raise UsageError(
                    reason=f"the variable {name} is unknown, or only the command line has its option. {question}"
                )


def origin_of(error: Any) -> str:
    """Return the variable that a wrong value comes from; "" if it is from the command line."""
    ctx, param = getattr(error, "ctx", None), getattr(error, "param", None)
    if ctx is None or param is None or getattr(ctx.get_parameter_source(param.name), "name", "") != "ENVIRONMENT":
        return ""
    return str(next(name for name in param.envvar if os.environ.get(name)))
