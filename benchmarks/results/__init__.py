"""What the records of a run tell: its figures, and what became of every message.

This room imports `load` for the format of records and bodies, and nothing else of Telesto.

Begin with `analysis`, from records to figures and tables, and with `balance`, from records to the audit.
`audit` compares what clients say with what is there: `stored` reads that from the database,
`identity_space` counts identities. `tables` writes the files of a run, `histograms` merges latencies,
`ratios` compares repetitions.
"""
