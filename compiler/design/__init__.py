"""The design of a kernel's pipeline as a report that can be checked: what was chosen, on what evidence, the contract, a run now.

`design` gives a `Design`, whose sections are made when they are read. All of it is read off the program: the synchronous form, what
the passes made of it, the plan of its storage and the launch's parameters. docs/design.md explains the sections and the JSON.
"""

from tilec.design.report import SCHEMA, Contract, Design, design

__all__ = ["SCHEMA", "Contract", "Design", "design"]
