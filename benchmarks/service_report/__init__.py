"""The report of a live service, from the tables of its database: `telesto report service`.

It imports `spark` and `pages`.

Begin with `report`: it reads the tables in one snapshot and makes the page. `frames` and `audit` are
functions from data frames to data frames; `sections` declares how they are shown.
"""
