"""What docs/performance.md says around its figures."""

from __future__ import annotations

from typing import Final

TITLE: Final = """\
# Performance

This page is made by `python -m benchmarks.page` from `benchmarks/results/{source}`; do not edit it. `make bench`
measures on 1,000 pods in a few minutes, `python -m benchmarks --pods 10000` on 10,000. Every figure stands beside a
reference that was measured in the same run on the same machine; nothing timed is asserted in tests.
"""

FIGURES: Final = """\
- **Hashing** is measured with six mixes of Dynamo-like templates, 25 to 50 KB of dump each, from such that are nearly
  alike to 10,000 that share little. The worst of them is what counts. The reference is Go's own packages, hashing the
  same templates, decoded, on one core.
- **A large dump** is Grove's scale test as `kubectl get -o json` prints it, with containers and field managers. `run`
  migrates it into another file.
- **The reference of patching** is a Go program (`benchmarks/reference/patcher`) that sends the very same patches with
  client-go, in no particular order, at the best of several concurrencies. It finds nothing out, checks nothing and
  logs nothing.
- **API server and etcd** are real ones, pinned to one core; whoever patches is pinned to another. On a machine that
  does other things as well, the CPU per patch tells more than the clock.
- **Scale test** is Grove's own shape: one PodCliqueSet, and a PodClique for every two pods. **Small sets** are as many
  PodCliqueSets as a tenth of the pods named, with two PodCliques of two pods each.
- **The whole run** is a process from its start to its end: imports, preflight, snapshot, plan, record, patches, and
  the snapshot that proves them. **Operator away** is the time from its scale-down to the last write.
- **Nothing to do** is the preflight of a run that finds everything migrated, **the lists alone** are the same lists,
  read and parsed by the same client and thrown away.
- **A GET of another client** is one of a small object, twenty times a second, by a process that does nothing else.
"""

NO_RUN: Final = """\
The run on an API server is not part of this measurement: the machine was too busy for figures of it to mean anything.
What it needs of time, of CPU and of memory is measured by `python -m benchmarks --only run --pods 10000`.
"""

GROWTH: Final = """\
## Growth

Snapshot, plan and patches of Grove's scale test, from simulated lists in pages of 500. Both axes are logarithmic, so
what grows in step with the pods is a line.
"""

PROFILE: Final = """\
## How a run spends its time

A run sends eight requests at a time, over as many connections of the official client's pool, kept alive: enough to
keep an API server with one core busy all the time. `--qps` limits it; there is no
limit by default. A `429` is obeyed with its `Retry-After`. One patch is sent for each object and subresource, nothing
is read before a write, and what is right already is not written. Before every patch the hold on the Lease is checked,
without a request. Pods and PodClique labels go first, then the status of PodCliques and of scaling groups, and last the
PodCliqueSet's own; a further set is begun only when a worker would have nothing to do otherwise.

Of our own CPU for one patch, about a quarter is TLS (two writes, because Python's HTTP library sends head and body
apart, and one read), almost a half is what `http.client` and urllib3 do around it (ten answer headers are parsed as an
e-mail's would be), one part in twenty is the log line that every patch leaves, and as much the JSON of request and
answer.

What was done about it, by CPU per patch against a server that answers at once:

- Credentials were asked of the official client for every request; with a kubeconfig it then reads the whole
  environment for proxies, a sixth of the time. Now they are taken for fresh for one second.
- The connection pool was found anew by URL for every request; now it is looked up once.
- Answers whose objects are metadata only are parsed by the plain JSON parser.
- Workers take the next patch themselves; before, one thread handed out every patch and was woken for every answer.

Together 1.7 ms became about 0.9 ms. What is left is the HTTP library's: the next step would be to send head and body
in one TLS record, which `http.client` does not offer, and not to parse ten answer headers of which none is looked at.
Both would need a client of our own, which the tool does not want: proxies, credential plugins and certificates are the
official client's business.

### Where goals are missed, and what comes next

- **The start**: of the official client only what is used is imported. Its other packages took 110 of the 260 ms of CPU
  of its import, and 11 MiB. What is left is urllib3, the kubeconfig's reader and its OAuth library.
- **Nothing to do**: a thread reads the pods while the other kinds are read, so that the API server is asked for the
  next page while this process trims objects.
- **Memory**: list items are decoded one by one, and forgotten as soon as they are trimmed; of a dump, what decisions
  need is kept, as bytes. Objects share the strings that most of them have. A pod with its half of a PodClique takes
  about 2 KiB in a snapshot with its plan, twice the goal: the names and UIDs of both, and a PodClique's labels and
  status. A run holds two snapshots at its end, the plan's and the one that proves what was written.
- **All schemes**: every template is printed anew for each API minor, and hashed for each scheme, because the sums
  differ by then. Only parts of a template that were met before are shared. Detection tries the schemes in order, so
  most templates never meet all of them.
- **Hashing against Go**: of the time for a template that shares nothing, a third goes to the characters that were
  never met, a seventh to fixed text, and almost a half to walking the object. Composing the text between two fields of
  the texts of single fields changed nothing, and neither did keeping a part's pieces until it was met 32 times. The
  start of the process is an eighth of the figure for templates that are nearly alike.
- **Text that was never met**: a character of it costs Python about 70 ns, and Go one or two. Everything else, the names
  and unset fields of a dump, costs one multiplication for each run of fixed text. A template with a unique script of
  20 KB takes more than a millisecond for that script alone.
"""
