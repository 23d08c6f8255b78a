"""ToolShed: a deterministic, simulated office workspace behind twelve typed tools.

`tools` holds the signatures and the system prompt, `calls` reads and writes calls, `runtime`
the state and what each tool does to it, `observations` what is printed; `offices` and `tasks`
say what is to be done, `operators` get a call wrong, and `pool` makes probe items of that.
"""

from backfire.environments.toolshed.runtime import Outcome, World, canonical, execute
from backfire.environments.toolshed.tasks import Task, probe_tasks, single_call_tasks
from backfire.environments.toolshed.tools import SYSTEM_PROMPT

__all__ = [
    "SYSTEM_PROMPT",
    "Outcome",
    "Task",
    "World",
    "canonical",
    "execute",
    "probe_tasks",
    "single_call_tasks",
]
