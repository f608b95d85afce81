"""The parts of a report, and how it is written.

It imports the errors of `spark`, and no other subpackage.

Begin with `section`: the parts of a report, with figures, units and explanations. `page` is a report as one
page and as text, and writes it completely or not at all. `plots` draws SVG.
"""
