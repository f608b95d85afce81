"""Tasks: functions that workers run for messages of queues, see docs/how-to/tasks.md.

Begin with `app`, where tasks are declared and put. `worker` runs them, `arguments` checks what they are
called with, and `periodic` says when they are due.
"""

from telesto.client import MessageRejectedError

try:
    from telesto.tasks.app import App, Task, current_message
    from telesto.tasks.worker import TaskTimeoutError, Worker
except ModuleNotFoundError as error:
    if error.name not in ("cronsim", "pydantic"):
        raise
    raise ImportError("tasks need: pip install 'telesto-mq[tasks]'") from error

__all__ = ["App", "MessageRejectedError", "Task", "TaskTimeoutError", "Worker", "current_message"]
