"""What the records of a run show: its figures, and the fate of every message.

It imports `load` for the format of records and bodies, and nothing else of Telesto.

Begin with `analysis`, from records to figures and tables, and with `audit`, from records to the balance of
messages: it compares what clients recorded with what `stored` reads from the database. `tables` writes the
files of a run, `histograms` merges latencies, `ratios` compares repetitions.
"""
