"""The report of a live service, from the tables of its database: `telesto report service`.

This room imports `spark` and `pages`.

Begin with `report`: it reads the tables in one snapshot. `queues`, `topics`, `consumers`, `residence`,
`traffic`, `partitions`, `clients` and `audit` are functions from data frames to data frames, with `columns`
in common, and know nothing of where the rows come from. `sections` and `audit_section` show them, `layout`
puts the page together from `contents`.
"""
