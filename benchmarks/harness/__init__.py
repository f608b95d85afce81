"""Experiments: factors and levels, unattended runs that can be resumed, and what they leave in files.

- `settings` and `experiment` read and check what is asked, `design` turns it into runs;
- `campaign` carries an experiment out, `performance` one run of it, each in a database of its own;
- `watch` looks at the tiers and the tables while it runs;
- `analysis` and `balance` (the audit and the order) work on the records afterwards, `tables` and `manifest`
  write the run's directory.
"""
