"""Single steps: each process stopped or killed between any two steps, with a service of the module."""
