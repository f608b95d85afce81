"""What a report is made of, and where it is written.

This room imports the errors of `spark`, and no other room.

Begin with `section`: the parts of a report, with figures, units and explanations. `page` is a report, as
one page and as text, and writes it as a whole or not at all. `plots` draws as SVG.
"""
