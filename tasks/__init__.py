"""Tasks: functions that workers run for messages of queues, see docs/how-to/tasks.md.

Begin with `app`, where tasks are declared and put. `worker` runs them, `arguments` checks what they are
called with, and `periodic` says when they are due.
"""

from telesto.tasks.app import App, Task, current_message
from telesto.tasks.worker import TaskTimeoutError, Worker

__all__ = ["App", "Task", "TaskTimeoutError", "Worker", "current_message"]
