"""grove-migrator: rewrites Grove's stored pod-template hashes before an operator upgrade.

There is no Python API: any module may change with any release. The contract is the command line: its flags, exit
codes and JSON, the codes of the guards, and the names of the log's events.
"""

__version__ = "1.0.0-rc2"
